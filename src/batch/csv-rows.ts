import { pipeline } from 'node:stream';
import { CsvError, type Info, parse } from 'csv-parse';
import type { BadLines } from './bad-lines.ts';
import type { RawTask } from './raw-task.ts';

type Row = { readonly record: readonly string[]; readonly info: Info };

/**
 * Reads CSV with a header row; every value is a string. Blank lines are skipped. Rows with too few or too many fields go to `bad`; so does
 * broken quoting, which ends the reading, because from there on no line can be told from the next.
 */
export async function* readCsv(blocks: AsyncIterable<string>, bad: BadLines): AsyncGenerator<RawTask> {
  const parser = parse({ info: true, relax_column_count: true, skip_empty_lines: true });
  // The iteration below meets whatever error ends the pipeline.
  pipeline(blocks, parser, () => undefined);
  const lines = new StartLines();
  let columns: readonly string[] | undefined;
  try {
    for await (const { record, info } of parser as AsyncIterable<Row>) {
      const line = lines.startOf(info);
      if (columns === undefined) {
        columns = record.map((name) => name.trim());
        if (!checkHeader(columns, line, bad)) return;
        continue;
      }
      const task = taskOf(columns, record, line, bad);
      if (task) yield task;
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    bad.add(lines.next, undefined, `broken quoting in the record that starts here: ${error.message}`);
  }
}

/** Where records start: the parser only says where they end, and fields may hold newlines. */
class StartLines {
  #linesRead = 0;
  #emptyLines = 0;

  get next(): number {
    return this.#linesRead + 1;
  }

  startOf({ lines, empty_lines: emptyLines }: Info): number {
    const line = this.#linesRead + (emptyLines - this.#emptyLines) + 1;
    this.#linesRead = lines;
    this.#emptyLines = emptyLines;
    return line;
  }
}

function checkHeader(columns: readonly string[], line: number, bad: BadLines): boolean {
  const before = bad.count;
  if (!columns.includes('item')) {
    const hint = columns.length === 1 && /[;\t]/.test(columns[0] ?? '') ? '; fields must be separated by commas' : '';
    bad.add(
      line,
      undefined,
      `no column named item among ${columns.map((name) => JSON.stringify(name)).join(', ')}${hint}`,
    );
  }
  for (const [index, name] of columns.entries()) {
    if (name === '') bad.add(line, undefined, `column ${index + 1} has no name`);
    else if (columns.indexOf(name) !== index) bad.add(line, undefined, `duplicate column ${JSON.stringify(name)}`);
  }
  return bad.count === before;
}

function taskOf(
  columns: readonly string[],
  record: readonly string[],
  line: number,
  bad: BadLines,
): RawTask | undefined {
  if (record.length !== columns.length) {
    const item = record[columns.indexOf('item')];
    bad.add(line, item, `${record.length} fields where the header has ${columns.length}`);
    return undefined;
  }
  const { item, ...input } = Object.fromEntries(columns.map((name, index) => [name, record[index]]));
  return { line, item, input, inputJson: JSON.stringify(input) };
}
