import type { FaquadBatch } from '../support/faquad.ts';

/** One answer as a stranger with the export and the documents judges it. */
export interface CheckedAnswer {
  /** The exported result, byte for byte. */
  raw: string;
  citations: number;
  /** Citations that do not stand in the document they name. */
  badCitations: string[];
  /** Its text contains one of the answers that people have given. */
  hasReference: boolean;
}

const RESULT = ',"result":';

/**
 * Reads `madrugada answers`, and checks each answer against documents and references by means of its own: the agent's gate is not asked.
 * Throws where a line is none of an answer with citations, or an item comes twice.
 */
export function checkAnswers(exported: string, batch: FaquadBatch): Map<string, CheckedAnswer> {
  const documents = new Map([...batch.documents].map(([name, text]) => [name, fold(text)]));
  const answers = new Map<string, CheckedAnswer>();
  for (const line of exported.split('\n').slice(0, -1)) {
    const {
      item,
      result,
    }: { item: string; result: { text: string; citations: { document: string; quote: string }[] } } = JSON.parse(line);
    if (answers.has(item)) throw new Error(`item ${item} is answered twice`);
    const text = fold(result.text).toLowerCase();
    answers.set(item, {
      raw: line.slice(line.indexOf(RESULT) + RESULT.length, -1),
      citations: result.citations.length,
      badCitations: result.citations
        .filter(({ document, quote }) => fold(quote) === '' || !documents.get(document)?.includes(fold(quote)))
        .map(({ document, quote }) => `${document}: ${quote}`),
      hasReference: (batch.references.get(item) ?? []).some((answer) => text.includes(fold(answer).toLowerCase())),
    });
  }
  return answers;
}

function fold(text: string): string {
  return text.split(/\s+/).filter(Boolean).join(' ');
}
