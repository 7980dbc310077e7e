import Anthropic from '@anthropic-ai/sdk';
import { expect, test } from 'vitest';
import type { Task } from '../../src/agent/task.ts';
import { openAlerts } from '../../src/batch/alerts.ts';
import { dispatchesOf, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { ask, fetchMessage, journalBench } from '../support/journal-bench.ts';
import { moveClock } from '../support/move-clock.ts';
import type { Exchange } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
/** So that the journal's back-off takes no time. */
const SOON = { 'retry-after': '0.001' };

/** Refuses the first `count` requests as overloaded, soon to be tried again. */
function refuseFirst(count: number, status = 529, type = 'overloaded_error'): void {
  bench.provider.script = (exchange) => {
    if (exchange.number <= count) exchange.refuse(status, type, SOON);
    else exchange.message();
  };
}

for (const [status, type] of [
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [529, 'overloaded_error'],
] as const)
  test(`a refusal ${status} is tried again by the journal, with a row for each dispatch, and the code sees only the answer`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    refuseFirst(2, status, type);
    const result = await worker.attempt(batch, (task) => ask(task, 'one'));

    expect(result.ending).toBe('completed');
    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 refused', '1.3 charged']);
    expect((await dispatchesOf(bench.db, batch)).map((row) => row.status)).toEqual([status, status, 200]);
    expect(bench.provider.requestCount).toBe(3);
  });

test('a refusal without a time to wait is tried again after a back-off of the journal’s own', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) =>
    exchange.number === 1 ? exchange.refuse(500, 'api_error') : exchange.message();
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(bench.provider.requestCount).toBe(2);
});

test('a call refused to the last becomes a 400 that no client tries again, saying what happened', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 3 } });
  refuseFirst(99);
  let response: Response | undefined;
  await worker.attempt(batch, async (task) => {
    response = await fetchMessage(task, 'one');
  });

  expect(response?.status).toBe(400);
  expect(response?.headers.get('x-should-retry')).toBe('false');
  expect(await response?.json()).toMatchObject({ error: { type: 'madrugada_refused', message: 'HTTP 529: no' } });
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 refused', '1.3 refused']);
});

test('a malformed request keeps the provider’s own status and words, and fails its task without another attempt', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(413, 'request_too_large', {}, 'too long by half');
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'failed', isFinal: true });
  expect(result.message).toBe('HTTP 413: too long by half');
  expect(bench.provider.requestCount).toBe(1);
});

test('a refusal of our credentials stops the batch at once, and the task goes back', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(401, 'authentication_error');
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('stopped');
  expect(await taskOf(bench.db, batch)).toMatchObject({ state: 'pending', attempts: 0 });
  const { rows } = await bench.db.pool.query('SELECT state, stop_reason FROM madrugada.batch WHERE batch_key = $1', [
    batch,
  ]);
  expect(rows).toEqual([{ state: 'stopped', stop_reason: 'the provider refuses this account: HTTP 401: no' }]);
  const alerts = (await openAlerts(bench.db.pool)).filter(({ batchKey }) => batchKey === batch);
  expect(alerts).toMatchObject([{ kind: 'account' }]);
});

test('a wait longer than a slot sits out parks the task instead', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '3600' });
  const before = Date.now();
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('parked');
  const task = await taskOf(bench.db, batch);
  expect(task).toMatchObject({ state: 'pending', waiting_for: 'refusal', attempts: 0 });
  expect(Number(task.not_before) - before).toBeGreaterThanOrEqual(3_600_000);
});

/** Asks 'flaky' and, if that was refused, 'instead'; breaks in its first `breaks` runs. */
function withPlanB(seen: string[], breaks: number) {
  return async (task: Task) => {
    const answer = await ask(task, 'flaky').catch((error: unknown) =>
      error instanceof Anthropic.APIError ? 'refused' : 'broken',
    );
    seen.push(answer);
    const end = answer === 'refused' ? await ask(task, 'instead') : answer;
    if (seen.length <= breaks) throw new Error('the program breaks here');
    return end;
  };
}
const refuseFlaky = (exchange: Exchange) =>
  exchange.prompt === 'flaky' ? exchange.refuse(529, 'overloaded_error', SOON) : exchange.message();

test('a refusal that the code has seen and gone on from is replayed, not tried again', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const seen: string[] = [];
  bench.provider.script = refuseFlaky;
  await worker.attempt(batch, withPlanB(seen, 1));
  bench.provider.script = (exchange) => exchange.message();
  const second = await worker.attempt(batch, withPlanB(seen, 1));

  expect(second.ending).toBe('completed');
  expect(seen).toEqual(['refused', 'refused']);
  expect(bench.provider.requestCount).toBe(2);
});

test('a refusal that is the last thing recorded is tried afresh', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = refuseFlaky;
  const first = await worker.attempt(batch, (task) => ask(task, 'flaky'));
  bench.provider.script = (exchange) => exchange.message();
  const second = await worker.attempt(batch, (task) => ask(task, 'flaky'));

  expect([first.ending, second.ending]).toEqual(['failed', 'completed']);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 charged']);
});

test('a refusal that was tried afresh, and answered, is not shown to the code by a later attempt', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  bench.provider.script = refuseFlaky;
  await worker.attempt(batch, (task) => ask(task, 'flaky'));
  bench.provider.script = (exchange) => exchange.message();
  await worker.attempt(batch, async (task) => {
    await ask(task, 'flaky');
    await ask(task, 'next');
    throw new Error('the program breaks here');
  });
  const third = await worker.attempt(batch, async (task) => [await ask(task, 'flaky'), await ask(task, 'next')]);

  expect(third).toMatchObject({ ending: 'completed', replayedCalls: 2 });
  expect(bench.provider.requestCount).toBe(3);
});

test('a refusal beside which other calls were answered is tried afresh as well: nothing came of it', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const run = (task: Task) => Promise.all([ask(task, 'flaky'), ask(task, 'slow')]);
  bench.provider.script = async (exchange) => {
    if (exchange.prompt === 'flaky') return exchange.refuse(529, 'overloaded_error');
    await until('the other is refused', async () =>
      (await kindsOf(bench.db, batch)).some((kind) => kind.endsWith('refused')),
    );
    exchange.message();
  };
  const first = await worker.attempt(batch, run);
  bench.provider.script = (exchange) => exchange.message();
  const second = await worker.attempt(batch, async (task) => {
    await run(task);
    await ask(task, 'next');
    throw new Error('the program breaks here');
  });
  const third = await worker.attempt(batch, async (task) => [...(await run(task)), await ask(task, 'next')]);

  expect(first).toMatchObject({ ending: 'failed', message: expect.stringContaining('HTTP 529') });
  expect(second.message).toBe('the program breaks here');
  expect(third).toMatchObject({ ending: 'completed', replayedCalls: 3 });
  expect(bench.provider.requestCount).toBe(4);
});

test('a refusal at which the code gave up another call is replayed: that call stays given up', async () => {
  const batch = await loadTestBatch(bench.db, { maxAttempts: 2 });
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const run = async (task: Task) => {
    const control = new AbortController();
    const other = fetchMessage(task, 'other', { signal: control.signal }).catch(() => undefined);
    await ask(task, 'flaky').catch(async (error: unknown) => {
      control.abort();
      await other;
      throw error;
    });
    await other;
  };
  bench.provider.script = async (exchange) => {
    if (exchange.prompt === 'flaky') return exchange.refuse(529, 'overloaded_error');
    await bench.provider.arrival(2);
    exchange.message();
  };
  await worker.attempt(batch, run);
  bench.provider.script = (exchange) => exchange.message();
  const second = await worker.attempt(batch, run);

  expect(second).toMatchObject({ ending: 'failed', isFinal: true, message: expect.stringContaining('HTTP 529') });
  expect(bench.provider.requestCount).toBe(2);
});

test('code that asks again after a refusal gets a new dispatch of the same call, and the same sequence on replay', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 1 } });
  const seen: string[][] = [];
  const run = async (task: Task) => {
    const answers: string[] = [];
    seen.push(answers);
    for (let n = 1; n <= 2; n += 1) answers.push(await ask(task, 'flaky').catch(() => 'refused'));
    await ask(task, 'next');
    if (seen.length === 1) throw new Error('the program breaks here');
  };
  refuseFirst(1);
  await worker.attempt(batch, run);
  const second = await worker.attempt(batch, run);

  expect(second.ending).toBe('completed');
  expect(seen).toEqual([
    ['refused', 'answer to flaky'],
    ['refused', 'answer to flaky'],
  ]);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 charged', '2.1 charged']);
});

for (const [what, body, words] of [
  ['the page of a proxy', '<html>Please log in</html>', 'its body is not JSON: <html>Please log in</html>'],
  ['an empty body', '', 'its body is empty'],
  ['JSON that is no message', '{"ok":true}', 'its JSON is no message: {"ok":true}'],
] as const)
  test(`a success that is ${what} is no answer: it stays in doubt, and is asked again`, async () => {
    const batch = await loadTestBatch(bench.db);
    const worker = await bench.workers.add();
    bench.provider.script = (exchange) => (exchange.number === 1 ? exchange.respond(200, body) : exchange.message());
    const result = await worker.attempt(batch, (task) => ask(task, 'one'));

    expect(result.ending).toBe('completed');
    expect(await kindsOf(bench.db, batch)).toEqual(['1.1 unknown', '1.2 charged']);
    expect((await dispatchesOf(bench.db, batch))[0]?.error).toBe(`HTTP 200 that is no answer: ${words}`);
  });

test('a spending limit that looks like a rate limit stops the batch after one request', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) =>
    exchange.refuse(429, 'rate_limit_error', SOON, 'You have reached your specified API usage limits.');
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('stopped');
  expect(bench.provider.requestCount).toBe(1);
});

test('a provider that asks to wait for a day is believed for an hour and its spread', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '86400' });
  await worker.attempt(batch, (task) => ask(task, 'one'));
  const waits = Number((await taskOf(bench.db, batch)).not_before) - Date.now();

  expect(waits).toBeLessThanOrEqual(1.25 * 3_600_000);
});

test('a call whose time is used up shows its last refusal, although it has dispatches left', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { callMs: 1_000_000, maxWaitMs: 4_000_000 } });
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '2000' });
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'failed', message: expect.stringContaining('HTTP 429: no') });
  expect(bench.provider.requestCount).toBe(1);
});

test('the time of a call counts on while its task is parked', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { callMs: 6_000_000 } });
  bench.provider.script = (exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '3600' });
  const first = await worker.attempt(batch, (task) => ask(task, 'one'));
  await moveClock(bench.db, '4501 seconds');
  const second = await worker.attempt(batch, (task) => ask(task, 'one'));
  const third = await worker.attempt(batch, (task) => ask(task, 'one')); // what the code has seen begins a new count
  await moveClock(bench.db, '-4501 seconds');

  expect([first.ending, second.ending, third.ending]).toEqual(['parked', 'failed', 'parked']);
});
