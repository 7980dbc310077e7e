import { z } from 'zod';
import { type Context, documentsOf } from '../sandbox/pack-context.ts';

/** An answer with what it rests on. */
export const citedAnswer = z.object({
  text: z.string(),
  citations: z.array(z.object({ document: z.string(), quote: z.string() })),
});
/** An answer is for people to read. */
const MAX_TEXT_CHARS = 100_000;

export type CitedAnswer = z.infer<typeof citedAnswer>;

/**
 * The gate: a text, and citations that occur word for word in the documents they name; runs of white space count as one space. Returns what
 * is wrong, in words for the root model; nothing when the answer passes.
 */
export function checkAnswer(answer: CitedAnswer, context: Context): string[] {
  const texts = new Map(documentsOf(context).map(({ name, text }) => [name, text]));
  const folded = new Map<string, string>();
  const problems: string[] = [];
  if (answer.text.trim() === '') problems.push('the text of the answer is empty');
  if (answer.text.length > MAX_TEXT_CHARS)
    problems.push(`the text has ${answer.text.length} characters; at most ${MAX_TEXT_CHARS}`);
  if (textsOf(answer).some((text) => text.includes('\0')))
    problems.push('it contains a NUL character, which the database cannot keep');
  if (answer.citations.length === 0) problems.push('there is no citation: an answer needs at least one');
  for (const [index, { document, quote }] of answer.citations.entries()) {
    const text = texts.get(document);
    const wanted = foldSpace(quote);
    if (text === undefined) problems.push(`citation ${index + 1}: there is no document "${document}"`);
    else if (wanted === '') problems.push(`citation ${index + 1}: the quote is empty`);
    else {
      const whole = folded.get(document) ?? foldSpace(text);
      folded.set(document, whole);
      if (!whole.includes(wanted))
        problems.push(`citation ${index + 1}: this does not stand in "${document}", word for word: ${shorten(wanted)}`);
    }
  }
  return problems;
}

function textsOf({ text, citations }: CitedAnswer): string[] {
  return [text, ...citations.flatMap(({ document, quote }) => [document, quote])];
}

function foldSpace(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

function shorten(text: string): string {
  return text.length <= 300 ? text : `${text.slice(0, 300)}…`;
}
