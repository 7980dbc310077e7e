/** Ways to spoil a program so that it does not parse; each finds what it spoils in every reading program. */
export const SYNTAX_ERRORS: readonly [(code: string) => string, ...((code: string) => string)[]] = [
  (code) => withoutLast(code, ')'),
  (code) => withoutLast(code, '('),
  (code) => code.replace('(', '(('),
  (code) => `${code}\n}`,
  (code) => `${code}\nprint("done);`,
];

function withoutLast(code: string, character: string): string {
  const at = code.lastIndexOf(character);
  return code.slice(0, at) + code.slice(at + 1);
}
