/** Control characters but line feed and tab, and those that turn the direction of writing: what text from outside could play tricks with. */
const CONTROLS = /(?![\n\t])\p{Cc}|[\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text that was written elsewhere, such as by a model, for a terminal: control characters are spelled out (`\x1b`) instead of obeyed. */
export function terminalText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(CONTROLS, spell);
}

function spell(character: string): string {
  const code = character.charCodeAt(0).toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u${code}`;
}
