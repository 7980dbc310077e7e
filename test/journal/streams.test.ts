import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench, question } from '../support/journal-bench.ts';
import { type Exchange, streamEvents } from '../support/scripted-provider.ts';
import { stallCommits } from '../support/stalled-commit.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
const EVENTS = streamEvents(1, 'a long answer');
const BEGINNING = EVENTS.slice(0, 3).join('');
const END = EVENTS.slice(3).join('');

function startStream(exchange: Exchange, chunk = BEGINNING): void {
  exchange.openStream();
  void exchange.send(chunk);
}

/** Reads a body to its end, or to its breaking off, and tells what came. */
async function readAll(response: Response, onChunk: (text: string) => void = () => undefined): Promise<string> {
  let text = '';
  try {
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString();
      onChunk(text);
    }
  } catch (error) {
    return `${text}[broke off: ${error instanceof Error ? error.message : error}]`;
  }
  return text;
}

test('a stream reaches the code as it arrives, before it is complete', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let seen = '';
  bench.provider.script = (exchange) => startStream(exchange);
  const attempt = await worker.start(batch, async (task) =>
    readAll(await fetchMessage(task, 'one'), (text) => {
      seen = text;
    }),
  );
  const exchange = await bench.provider.arrival(1);
  await until('the code has the beginning', () => seen === BEGINNING);
  await exchange.send(END);
  exchange.end();

  expect((await attempt.result).ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe(EVENTS.join(''));
});

test('the code does not see the end of a stream before its outcome is committed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const outcomes = await stallCommits(bench.db, 'call_outcome', batch);
  let seen = '';
  const attempt = await worker.start(batch, async (task) =>
    readAll(await fetchMessage(task, 'one'), (text) => {
      seen = text;
    }),
  );
  bench.provider.script = (exchange) => startStream(exchange);
  const exchange = await bench.provider.arrival(1);
  await exchange.send(END);
  exchange.end();
  await outcomes.stalled();
  const before = seen;
  await outcomes.release();
  await attempt.result;

  expect(before).not.toContain('message_stop');
  expect(seen).toBe(EVENTS.join(''));
});

test('a stream is replayed whole, byte for byte', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const seen: string[] = [];
  bench.provider.script = (exchange) => exchange.stream('a long answer');
  const run = async (task: Task) => {
    seen.push(await readAll(await fetchMessage(task, 'one')));
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(seen).toEqual([EVENTS.join(''), EVENTS.join('')]);
  expect(bench.provider.requestCount).toBe(1);
});

for (const [how, cut] of [
  ['by a broken connection', (exchange: Exchange) => exchange.cut()],
  ['by an end that looks orderly', (exchange: Exchange) => exchange.end()],
] as const)
  test(`a stream cut ${how} before its last event is no answer: it is in doubt, and the code’s body breaks off`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    let seen = '';
    bench.provider.script = (exchange) => startStream(exchange);
    const attempt = await worker.start(batch, async (task) =>
      readAll(await fetchMessage(task, 'one'), (text) => {
        seen = text;
      }),
    );
    const exchange = await bench.provider.arrival(1);
    await until('the code has the beginning', () => seen === BEGINNING);
    cut(exchange);
    await attempt.result;

    expect((await taskOf(bench.db, batch)).result).toMatch(/\[broke off: /);
    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
    const { rows } = await bench.db.pool.query('SELECT seq FROM madrugada.audit_in_doubt WHERE batch_key = $1', [
      batch,
    ]);
    expect(rows).toEqual([{ seq: 1 }]);
  });

test('a cut stream has no price: its placeholder count is not taken for what was used', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = (exchange) => {
    startStream(exchange);
    exchange.end();
  };
  await worker.attempt(batch, async (task) => readAll(await fetchMessage(task, 'one')));
  const { rows } = await bench.db.pool.query('SELECT cost_usd FROM madrugada.call_outcome WHERE batch_key = $1', [
    batch,
  ]);

  expect(rows).toEqual([{ cost_usd: null }]);
});

test('a break that the code has seen and gone on from is replayed as it was', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const seen: string[] = [];
  bench.provider.script = (exchange) => {
    if (exchange.prompt === 'next') return exchange.message();
    startStream(exchange);
    void until('the code has the beginning', () => seen.at(-1) === BEGINNING).then(() => exchange.cut());
  };
  const run = async (task: Task) => {
    const attempt = seen.push('') - 1;
    seen[attempt] = await readAll(await fetchMessage(task, 'one'), (text) => {
      seen[attempt] = text;
    });
    await fetchMessage(task, 'next');
    if (attempt === 0) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second.ending).toBe('completed');
  expect(seen[1]).toBe(seen[0]);
  expect(seen[0]).toContain('[broke off: ');
  expect(bench.provider.requestCount).toBe(2);
});

test('an error event at the head of a stream is a refusal: it is tried again, and the code sees only the answer', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  bench.provider.script = (exchange) => {
    if (exchange.number > 1) return exchange.stream();
    startStream(exchange, `event: error\ndata: ${JSON.stringify(error)}\n\n`);
    exchange.end();
  };
  await worker.attempt(batch, async (task) => readAll(await fetchMessage(task, 'one')));

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 charged']);
  expect((await taskOf(bench.db, batch)).result).not.toContain('Overloaded');
});

test('an error event after part of an answer leaves a doubt: what was generated may be charged', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  let seen = '';
  bench.provider.script = (exchange) => startStream(exchange);
  const attempt = await worker.start(batch, async (task) =>
    readAll(await fetchMessage(task, 'one'), (text) => {
      seen = text;
    }),
  );
  const exchange = await bench.provider.arrival(1);
  await until('the code has the beginning', () => seen === BEGINNING);
  await exchange.send(`event: error\ndata: ${JSON.stringify(error)}\n\n`);
  exchange.end();
  await attempt.result;

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
  expect((await dispatchesOf(bench.db, batch))[0]?.error).toContain('Overloaded');
});

test('an error event that comes in one chunk with the beginning of an answer leaves a doubt, too', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  bench.provider.script = (exchange) => {
    startStream(exchange, `${BEGINNING}event: error\ndata: ${JSON.stringify(error)}\n\n`);
    exchange.end();
  };
  await worker.attempt(batch, async (task) => (await fetchMessage(task, 'one')).status);

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown']);
});

test('a stream whose last event has come is an answer, although its connection then breaks', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  let seen = '';
  bench.provider.script = (exchange) => startStream(exchange);
  const attempt = await worker.start(batch, async (task) =>
    readAll(await fetchMessage(task, 'one'), (text) => {
      seen = text;
    }),
  );
  const exchange = await bench.provider.arrival(1);
  await until('the code has the beginning', () => seen === BEGINNING);
  await exchange.send(END);
  exchange.cut();
  await attempt.result;

  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

test('usage and cost of a stream are those of its last event', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.stream();
  await worker.attempt(batch, async (task) => {
    const stream = task.anthropic.messages.stream(question('one'));
    return (await stream.finalMessage()).usage.output_tokens;
  });
  const { rows } = await bench.db.pool.query(
    'SELECT input_tokens, output_tokens, cost_usd, message_id FROM madrugada.call_outcome WHERE batch_key = $1',
    [batch],
  );

  expect((await taskOf(bench.db, batch)).result).toBe(20);
  expect(rows).toEqual([{ input_tokens: 10, output_tokens: 20, cost_usd: '0.00011', message_id: 'msg_1' }]);
});

test('a stream whose connection stays open after its last event ends with that event, and the connection is closed', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => startStream(exchange, EVENTS.join(''));
  const result = await worker.attempt(batch, async (task) => readAll(await fetchMessage(task, 'one')));
  await bench.provider.exchanges[0]?.closed;

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.db, batch)).result).toBe(EVENTS.join(''));
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 charged']);
});

const CREDIT = {
  type: 'error',
  error: { type: 'invalid_request_error', message: 'Your credit balance is too low to access the Anthropic API.' },
};

test('a stream that says there is no credit stops the batch after one request, though its connection stays open', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => startStream(exchange, `event: error\ndata: ${JSON.stringify(CREDIT)}\n\n`);
  const result = await worker.attempt(batch, async (task) => readAll(await fetchMessage(task, 'one')));

  expect(result).toMatchObject({ ending: 'stopped', message: expect.stringContaining('credit balance is too low') });
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused']);
  expect(bench.provider.requestCount).toBe(1);
});

for (const [type, isFinal] of [
  ['overloaded_error', false],
  ['invalid_request_error', true],
] as const)
  test(`a stream refused to the last with ${type} ${isFinal ? 'fails its task' : 'leaves its task to another attempt'}`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
    const error = { type: 'error', error: { type, message: 'no' } };
    bench.provider.script = (exchange) => startStream(exchange, `data: ${JSON.stringify(error)}\n\n`);
    const result = await worker.attempt(batch, (task) => ask(task, 'one'));

    expect(result).toMatchObject({ ending: 'failed', isFinal });
  });

test('a stream that brought beginning and error at once breaks off for the code, live and on replay', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const text = `${BEGINNING}data: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n`;
  bench.provider.script = (exchange) => (exchange.prompt === 'next' ? exchange.message() : startStream(exchange, text));
  const seen: string[] = [];
  const run = async (task: Task) => {
    seen.push(await readAll(await fetchMessage(task, 'one')));
    await fetchMessage(task, 'next');
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  await worker.attempt(batch, run);
  await worker.attempt(batch, run);

  expect(seen).toEqual(Array(2).fill(`${text}[broke off: error in the stream: no]`));
});
