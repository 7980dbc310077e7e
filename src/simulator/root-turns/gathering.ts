/** What the programs for one question are about; both are JavaScript literals. */
export type Subject = { readonly question: string; readonly words: string };

/** The part of a program that says what is asked and looks where the answer may stand. */
export function gathering({ question, words }: Subject): string {
  return `const question = ${question};
const words = ${words};
const documents = typeof context === 'string' ? [{ name: 'context', text: context }] : [...context];
const hits = words.length > 0 ? search(words.join(' '), 24) : [];`;
}
