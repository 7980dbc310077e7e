/** White space and a bar at the left of a line, which its continuations get as well. */
const MARGIN = /^ *(│ )?/;

/** Breaks lines that are longer than `width`, at a space where there is one near, so that their left margin stays. */
export function foldLines(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((line) => fold(line, width))
    .join('\n');
}

function fold(line: string, width: number): string[] {
  if (line.length <= width) return [line];
  const [margin] = MARGIN.exec(line) ?? [''];
  const room = Math.max(20, width - margin.length);
  const folded: string[] = [];
  let rest = [...line.slice(margin.length)]; // by character: none is cut in two
  while (rest.length > room) {
    const space = rest.lastIndexOf(' ', room);
    const end = space > room / 2 ? space + 1 : room;
    folded.push(margin + rest.slice(0, end).join('').trimEnd());
    rest = rest.slice(end);
  }
  return [...folded, margin + rest.join('')];
}
