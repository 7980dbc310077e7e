/** Loops or calls of the guest between two ticks, about. */
const STEPS_A_TICK = 10_000;
const MAX_FRAMES = 3;
/** Characters of a failure's message that the root model sees. */
const MAX_MESSAGE_CHARS = 2_000;

/** The guest was stopped after so many ticks. */
export function tooManySteps(ticks: number): string {
  return `The code was stopped after ${(ticks * STEPS_A_TICK) / 1_000_000} million steps. What it had assigned until then is kept.`;
}

/** A block could not be run. */
export function notRun(why: string): string {
  return `SyntaxError: ${why}. Nothing of this block was run.`;
}

function shorten(message: string): string {
  if (message.length <= MAX_MESSAGE_CHARS) return message;
  const half = MAX_MESSAGE_CHARS / 2;
  return `${message.slice(0, half)} [… ${message.length - 2 * half} characters were cut here …] ${message.slice(-half)}`;
}

/** Where in its own code the guest was; columns are those of the rewritten code, and left out. */
function framesOf(stack: string): string[] {
  return [...stack.matchAll(/^ *at (.*?)\(?(turn-[\d-]+\.js):(\d+)/gm)]
    .slice(0, MAX_FRAMES)
    .map(([, name = '', file, line]) => `    at ${name.replace('<anonymous> ', '')}${file} line ${line}`);
}

/** An error of the guest's: its message, within limits, and where in its own code it was. */
export function errorText(message: string, stack: string): string {
  return [shorten(message), ...framesOf(stack)].join('\n');
}
