import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/postgres/package-root.ts';
import { runCommand } from './command.ts';

const FAQUAD = join(packageRoot(), '..', 'shared', 'data', 'faquad');

/** The Portuguese questions stand beside this repository, not in it. */
export const FAQUAD_IS_THERE = existsSync(FAQUAD);
/** What a test says that is skipped without them. */
export const FAQUAD_IS_MISSING = 'the questions of FaQuAD are not beside this repository: ../shared/data/faquad';

/** The real questions as one batch about the whole collection. */
export interface FaquadBatch {
  /** The batch file: `item` and `question`, no document, so that each question is asked of all of them. */
  file: string;
  /** For `--option documents=`. */
  documentsFolder: string;
  /** The texts of the documents by name, as a stranger reads them. */
  documents: ReadonlyMap<string, string>;
  /** The answers that people have given, by item. No task sees them. */
  references: ReadonlyMap<string, string[]>;
}

interface Dataset {
  data: { paragraphs: { qas: { question: string; answers: { text: string }[] }[] }[] }[];
}

/** Writes the first `count` questions of the fixed split, and the documents, into `folder`. */
export async function writeFaquad(folder: string, count: number): Promise<FaquadBatch> {
  const split = await runCommand([folder], { script: join(FAQUAD, 'split.mjs') });
  if (split.code !== 0) throw new Error(`the questions could not be split: ${split.stderr}`);
  const lines = readFileSync(join(folder, 'night-400.jsonl'), 'utf8').trimEnd().split('\n').slice(0, count);
  if (lines.length < count) throw new Error(`there are ${lines.length} questions, not ${count}`);
  const questions = lines.map((line): { item: string; question: string } => JSON.parse(line));
  const file = join(folder, 'questions.jsonl');
  writeFileSync(file, questions.map(({ item, question }) => `${JSON.stringify({ item, question })}\n`).join(''));
  const documentsFolder = join(folder, 'documents');
  const answers = referencesByQuestion();
  return {
    file,
    documentsFolder,
    documents: new Map(
      readdirSync(documentsFolder).map((name) => [name, readFileSync(join(documentsFolder, name), 'utf8')]),
    ),
    references: new Map(questions.map(({ item, question }) => [item, answers.get(question) ?? []])),
  };
}

function referencesByQuestion(): Map<string, string[]> {
  const { data }: Dataset = JSON.parse(readFileSync(join(FAQUAD, 'dataset.json'), 'utf8'));
  const references = new Map<string, string[]>();
  for (const { question, answers } of data.flatMap(({ paragraphs }) => paragraphs.flatMap(({ qas }) => qas))) {
    const known = references.get(question.trim()) ?? []; // two questions are asked of more than one paragraph
    references.set(question.trim(), [...known, ...answers.map(({ text }) => text)]);
  }
  return references;
}
