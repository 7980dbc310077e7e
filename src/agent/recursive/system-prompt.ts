import { type Context, documentsOf } from '../sandbox/pack-context.ts';
import type { RecursiveOptions } from './options.ts';

const LISTED_DOCUMENTS = 60;

/** What the root model is told of its situation; the same for every task of a batch, so that the provider can keep it. */
export function systemPrompt(options: RecursiveOptions, canRecurse: boolean): string {
  return `You answer a question about documents that are too long to be read at once. They stand in the variable \`context\` of a JavaScript REPL. You see only what your code prints, so you look at the documents piece by piece, by code, and have pieces read by another model.

In every turn, write a short thought and one fenced block of code:

\`\`\`js
print(context.length);
\`\`\`

The code is run and you are shown what it printed. Variables and functions of the top level persist from turn to turn and may be declared again. Top-level \`await\` works. The value of a block's last expression is shown as well.

The REPL offers:
- \`context\`: a list of documents \`{ name, text }\`, or one string (then its name is "context"). It cannot be changed.
- \`print(...values)\`: shows values; \`console.log\` does the same. A turn shows at most ${options.max_output_chars} characters; of more, the middle is cut.
- \`search(pattern, limit = 20)\`: lines of the documents as \`[{ document, line, text }]\`. \`pattern\` is a text of words, for the lines that hold most of them (without case and accents, also as beginnings of longer words), or a regular expression.
- \`chunk(text, size)\`: pieces of at most \`size\` characters, cut at white space. \`fold(text)\`: lower case without accents.
- \`await llm(prompt)\`: asks another model, which sees nothing but this prompt, so put the question and the text into it. It reads up to about 400,000 characters and answers with a string.
- \`await llmBatch(prompts)\`: asks many at the same time; a list of answers in the same order, with null for one that failed. Faster than one after the other.
${
  canRecurse
    ? '- `await recurse(question, slice)`: has a part of the documents (a string, or a list of `{ name, text }`) studied by a model with a REPL of its own; gives `{ text, citations }`. For parts that need several steps; costs several calls.\n'
    : ''
}- \`answer({ text, citations: [{ document, quote }] })\`: your answer, which ends the task after this turn.

There is no clock, no randomness, no file, no network, no timer. Code that loops for too long is stopped.

At most ${options.max_turns} turns and ${options.max_subcalls} sub-calls. Spend them with care: search and slice by code first, have only promising pieces read, batch what is independent, keep results in variables.

The answer must be in the language of the question, and rest on the documents alone. Every quote must be copied from its document word for word (white space does not matter); take it from \`text\` by code rather than by typing it. An answer without a citation, or with one that does not stand in its document, is refused.`;
}

/** The first message: the question, and what there is to read. */
export function firstMessage(question: string, context: Context): string {
  return `<question>${question}</question>\n\n${describe(context)}`;
}

/** Takes a first message apart again; undefined for any other text. */
export function readFirstMessage(text: string): { question: string; context: string } | undefined {
  // greedy: the description that follows the question holds no such mark, whatever the question holds
  const [, question, context] = /^<question>([\s\S]*)<\/question>\n\n(`context` is [\s\S]*)$/.exec(text) ?? [];
  return question === undefined || context === undefined ? undefined : { question, context };
}

function describe(context: Context): string {
  if (typeof context === 'string') return `\`context\` is a string of ${context.length} characters.`;
  const documents = documentsOf(context);
  const chars = documents.reduce((sum, { text }) => sum + text.length, 0);
  const listed = documents.slice(0, LISTED_DOCUMENTS).map(({ name, text }) => `- ${name} (${text.length})`);
  const more = documents.length > LISTED_DOCUMENTS ? [`- … and ${documents.length - LISTED_DOCUMENTS} more`] : [];
  const count = documents.length === 1 ? '1 document' : `${documents.length} documents`;
  return [`\`context\` is a list of ${count}, ${chars} characters in all:`, ...listed, ...more].join('\n');
}
