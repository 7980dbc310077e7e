import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { defineAgent } from './define-agent.ts';

const DEFAULT_MODEL = 'claude-haiku-4-5';
const MAX_TOKENS = 1024;

/**
 * The built-in agent `prompt`: one message per task. Where the input names a `document`, that file of the folder `--option documents=DIR`
 * goes along. `--option model=NAME` chooses the model.
 */
export const promptAgent = defineAgent({
  input: z.looseObject({ question: z.string().min(1), document: z.string().min(1).optional() }),
  output: z.object({ text: z.string().min(1) }),

  async run(task) {
    const { question, document } = task.input;
    const text =
      document === undefined
        ? ''
        : `<document name="${document}">\n${await readDocument(task.options.documents, document)}\n</document>\n\n`;
    const message = await task.anthropic.messages.create({
      model: typeof task.options.model === 'string' ? task.options.model : DEFAULT_MODEL,
      max_tokens: MAX_TOKENS,
      messages: [{ role: 'user', content: `${text}<question>${question}</question>` }],
    });
    return { text: message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('') };
  },
});

async function readDocument(folder: unknown, name: string): Promise<string> {
  if (typeof folder !== 'string')
    throw new Error(`the input names document ${name}: load the batch with --option documents=DIR`);
  if (basename(name) !== name) throw new Error(`document ${name} must be a file name, not a path`);
  return readFile(join(folder, name), 'utf8');
}
