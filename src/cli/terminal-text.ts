/** Control characters but line feed and tab, and those that turn the direction of writing: what text from outside could play tricks with. */
const CONTROLS = /(?![\n\t])\p{Cc}|[\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text that was written elsewhere, such as by a model, for a terminal: control characters are spelled out (`\x1b`) instead of obeyed. */
export function terminalText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(CONTROLS, spell);
}

function spell(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16);
  if (code.length > 4) return `\\u{${code}}`;
  return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
}

/** Characters that change what is read and show nothing themselves. */
const INVISIBLE = /\p{Cf}|\p{Variation_Selector}|\u115f|\u1160|\u3164|\uffa0/gu;

/** Text from elsewhere as part of one line. */
export function oneLine(text: string): string {
  return exactText(text).replaceAll(/\s+/g, ' ');
}

/** As `terminalText`, where a person decides on the very characters: those that show nothing are spelled out as well. */
export function exactText(text: string): string {
  return terminalText(text).replaceAll(INVISIBLE, spell);
}
