import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { importBill } from '../../src/bill/import-bill.ts';
import { judgeBatch } from '../../src/bill/verdict.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { ask, journalBench } from '../support/journal-bench.ts';

const bench = journalBench();
let client: Client;
const folder = mkdtempSync(join(tmpdir(), 'madrugada-bill-'));

beforeAll(async () => {
  client = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'test bill' });
});
afterAll(async () => {
  await client.end();
  rmSync(folder, { recursive: true });
});

let bills = 0;

/** A batch whose one task has made two calls, and what its provider's bill says of them. */
async function paidBatch() {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.message();
  await worker.attempt(batch, async (task) => {
    for (const prompt of ['one', 'two']) await ask(task, prompt);
    return null;
  });
  const { rows } = await bench.db.pool.query<{ tag: string; id: string | null; message: string | null; usd: string }>(
    `SELECT i.tag, o.provider_request_id AS id, o.message_id AS message, o.cost_usd::text AS usd
       FROM madrugada.call_intent i JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
      WHERE i.batch_key = $1 ORDER BY i.seq`,
    [batch],
  );
  const lines = rows.map(({ tag, id, message, usd }, index) =>
    JSON.stringify({
      provider_request_id: id ?? `req_${index}`,
      message_id: message ?? `msg_${index}`,
      tag,
      at: '2026-11-01T02:00:00.000Z',
      model: 'claude-haiku-4-5',
      input_tokens: 1,
      output_tokens: 1,
      cost_usd: usd,
      request_sha256: '0'.repeat(64),
    }),
  );
  return { batch, lines: lines as [string, string] };
}

function billOf(lines: readonly string[]): string {
  bills += 1;
  const file = join(folder, `bill-${bills}.jsonl`);
  writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
  return file;
}

async function judged(batch: string, lines: readonly string[]): Promise<string[]> {
  await importBill(client, batch, billOf(lines));
  return (await judgeBatch(client, batch)).problems;
}

test('a bill that says what the journal says proves the batch', async () => {
  const { batch, lines } = await paidBatch();
  expect(await judged(batch, lines)).toEqual([]);
});

test('without a bill nothing is proven about charges', async () => {
  const { batch } = await paidBatch();
  expect((await judgeBatch(client, batch)).problems).toEqual([expect.stringContaining('no bill')]);
});

test('a line that stands twice is a call charged twice, although it is the same line', async () => {
  const { batch, lines } = await paidBatch();
  const problems = await judged(batch, [...lines, lines[0]]);
  expect(problems).toContainEqual(expect.stringMatching(/1 calls were charged more than once, 1 .* without/));
});

test('a missing line, a line nobody sent and a changed amount are found, though the totals agree', async () => {
  const { batch, lines } = await paidBatch();
  const stranger = lines[1]
    .replace(/"tag":"[^"]*"/, '"tag":"unknown"')
    .replace(/"provider_request_id":"[^"]*"/, '"provider_request_id":"req_x"');
  expect(await judged(batch, [lines[0], stranger])).toContainEqual(expect.stringContaining('differ in 2 lines'));
});

test('lines of another night are told apart', async () => {
  const first = await paidBatch();
  const second = await paidBatch();
  expect(await judged(first.batch, [...first.lines, ...second.lines])).toEqual([]);
  const { rows } = await client.query('SELECT other_batches FROM madrugada.audit_batch_totals WHERE batch_key = $1', [
    first.batch,
  ]);
  expect(rows).toEqual([{ other_batches: 2 }]);
});

test('lines without a request id are matched by their tag', async () => {
  const { batch, lines } = await paidBatch();
  expect(
    await judged(
      batch,
      lines.map((line) => line.replace(/"provider_request_id":"[^"]*"/, '"provider_request_id":""')),
    ),
  ).toEqual([]);
});

test('the same bill again changes nothing; one that has grown replaces it in the proofs', async () => {
  const { batch, lines } = await paidBatch();
  const file = billOf([lines[0]]);
  const first = await importBill(client, batch, file);
  expect(await importBill(client, batch, file)).toMatchObject({ id: first.id, imported: false });
  appendFileSync(file, `${lines[1]}\n`);
  expect(await importBill(client, batch, file)).toMatchObject({ imported: true, continues: first.id });
  expect((await judgeBatch(client, batch)).problems).toEqual([]);
});

test('a bad line is named, and nothing of the file is imported', async () => {
  const { batch, lines } = await paidBatch();
  await expect(importBill(client, batch, billOf([...lines, '{"tag":']))).rejects.toThrow(/line 3/);
  expect((await bench.db.pool.query('SELECT FROM madrugada.bill WHERE batch_key = $1', [batch])).rowCount).toBe(0);
});

test('a bill that begins like an imported one, but not byte for byte, stands beside it', async () => {
  const { batch, lines } = await paidBatch();
  await importBill(client, batch, billOf([lines[0]]));
  const other = billOf([lines[0].replace('02:00:00.000Z', '02:00:00.001Z'), lines[1]]);
  expect(await importBill(client, batch, other)).toMatchObject({ imported: true, continues: null });
  expect((await judgeBatch(client, batch)).problems).toContainEqual(expect.stringContaining('charged more than once'));
});

test('the same bill imported twice at once is one bill', async () => {
  const { batch, lines } = await paidBatch();
  const file = billOf(lines);
  const other = await openClient({ url: bench.db.url, as: 'operator', applicationName: 'test bill' });
  const both = await Promise.all([client, other].map((by) => importBill(by, batch, file)));
  await other.end();
  expect(both.map(({ imported }) => imported).sort()).toEqual([false, true]);
  expect((await judgeBatch(client, batch)).problems).toEqual([]);
});

test('twenty bad lines are named, the others are counted', async () => {
  const { batch } = await paidBatch();
  const error: unknown = await importBill(client, batch, billOf(Array(23).fill('{}'))).catch((error: unknown) => error);
  expect(error).toMatchObject({ exitCode: 2, message: expect.stringMatching(/23 errors; .*line 20: .*and 3 more$/s) });
});
