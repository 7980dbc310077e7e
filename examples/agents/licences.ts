import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
// relative, so that it runs before the package is built; your own agent says: from 'madrugada'
import { defineAgent, type Task } from '../../src/index.ts';

const input = z.object({ question: z.string().min(1), document: z.string().regex(/^[\w.-]+$/) });
const output = z.object({ text: z.string().min(1), citations: z.array(z.string()).min(1) });
type Asked = Task<z.infer<typeof input>>;

const ROOT = 'claude-opus-4-6';
const READER = 'claude-haiku-4-5';
/** Parts that a report is read in, in each round, at the same time. */
const PARTS = 6;

/**
 * Answers a question about a licence from its report, in 25 calls. The root model plans (1), has the report read in parts in three rounds
 * (3 × 6 calls of the reader), weighs what each round found (3), and then drafts, checks and words the answer (3).
 */
export default defineAgent({
  input,
  output,
  async run(task) {
    const report = await readReport(task);
    const { question } = task.input;
    let findings = await ask(task, ROOT, 'Planeje a leitura.', report, question);
    for (let round = 1; round <= 3; round += 1) {
      const parts = splitReport(report, PARTS).map((part, index) =>
        ask(task, READER, `Rodada ${round}, parte ${index + 1}. Já se sabe: ${findings}`, part, question),
      );
      findings = await ask(task, ROOT, `Pondere a rodada ${round}.`, (await Promise.all(parts)).join('\n'), question);
    }
    const draft = await ask(task, ROOT, 'Redija a resposta.', `${findings}\n${report}`, question);
    const checked = await ask(task, ROOT, `Confira este rascunho: ${draft}`, report, question);
    const text = await ask(task, ROOT, 'Dê a forma final.', checked, question);
    return { text, citations: sentencesOf(checked) };
  },

  /** Every citation must stand in the report, word for word: nobody's opinion is asked. */
  async check(answer, task) {
    const report = flatten(await readReport(task));
    const invented = answer.citations.find((citation) => !report.includes(flatten(citation)));
    if (invented !== undefined) throw new Error(`this citation does not stand in ${task.input.document}: ${invented}`);
  },
});

async function ask(task: Asked, model: string, instruction: string, text: string, question: string): Promise<string> {
  const reply = await task.anthropic.messages.create({
    model,
    max_tokens: 1_000,
    messages: [
      {
        role: 'user',
        content: `${instruction}\n<document>\n${text}\n</document>\n<question>${question}</question>`,
      },
    ],
  });
  return reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

function readReport(task: Asked): Promise<string> {
  const folder = task.options.documents;
  if (typeof folder !== 'string') throw new Error('load the batch with --option documents=FOLDER');
  return readFile(join(folder, task.input.document), 'utf8');
}

function splitReport(report: string, count: number): string[] {
  const lines = report.split('\n').filter((line) => line !== '');
  const size = Math.ceil(lines.length / count);
  return Array.from({ length: count }, (_, part) => lines.slice(part * size, (part + 1) * size).join('\n'));
}

function sentencesOf(text: string): string[] {
  return text.split(/(?<=[.!?])\s+(?=\p{Lu})/u).filter((sentence) => sentence.length > 0);
}

function flatten(text: string): string {
  return text.replaceAll(/\s+/g, ' ');
}
