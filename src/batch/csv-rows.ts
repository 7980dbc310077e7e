import { CsvError, type Info, type Parser, parse } from 'csv-parse';
import type { BadLines } from './bad-lines.ts';
import type { RawTask } from './raw-task.ts';

type Row = { readonly record: readonly string[]; readonly line: number };

/**
 * Reads CSV with a header row; every value is a string. Blank lines are skipped. Rows with too few or too many fields go to `bad`; so does
 * broken quoting, which ends the reading, because from there on no line can be told from the next.
 */
export async function* readCsv(blocks: AsyncIterable<string>, bad: BadLines): AsyncGenerator<RawTask> {
  let columns: readonly string[] | undefined;
  for await (const { record, line } of readRows(blocks, bad)) {
    if (columns === undefined) {
      columns = record.map((name) => name.trim());
      if (!checkHeader(columns, line, bad)) return;
      continue;
    }
    const task = taskOf(columns, record, line, bad);
    if (task) yield task;
  }
}

/** The records with the lines where they start. Rows are kept here, because the parser's own stream loses at an error those it still holds. */
async function* readRows(blocks: AsyncIterable<string>, bad: BadLines): AsyncGenerator<Row> {
  const lines = new StartLines();
  const rows: Row[] = [];
  const parser = parse({
    relax_column_count: true,
    skip_empty_lines: true,
    on_record: (record: string[], info) => {
      rows.push({ record, line: lines.startOf(info) });
      return null;
    },
  });
  parser.on('error', () => undefined); // `feed` returns it
  for await (const block of withEnd(blocks)) {
    const broken = await feed(parser, block);
    yield* rows.splice(0);
    if (!broken) continue;
    bad.add(lines.startOf(parser.info), undefined, `broken quoting in the record that starts here: ${broken.message}`);
    return;
  }
}

async function* withEnd(blocks: AsyncIterable<string>): AsyncGenerator<string | undefined> {
  yield* blocks;
  yield undefined;
}

/** Has the parser read a block, or know that there is no more. Returns what is wrong with it, if anything is. */
function feed(parser: Parser, block: string | undefined): Promise<CsvError | undefined> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => {
      if (error == null || error instanceof CsvError) resolve(error ?? undefined);
      else reject(error);
    };
    if (block === undefined) parser.end(done);
    else parser.write(block, done);
  });
}

/** Where records start: the parser only says where they end, and fields may hold newlines. */
class StartLines {
  #linesRead = 0;
  #emptyLines = 0;

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
