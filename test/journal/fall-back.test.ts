import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import Big from 'big.js';
import { afterAll, expect, test } from 'vitest';
import { type BatchOptions, kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { type RunningCommand, startCommand } from '../support/command.ts';
import { ask, countBody, fetchBody, journalBench, question } from '../support/journal-bench.ts';
import { proofOf } from '../support/money.ts';
import { type Exchange, messageOf } from '../support/scripted-provider.ts';
import { until } from '../support/until.ts';

const bench = journalBench();
/** What the calls of these tests ask, and what the batch falls back to: five times as dear. */
const ASKED = 'claude-haiku-4-5';
const OTHER = 'claude-opus-4-6';
const AFTER_TWO: BatchOptions = { fallBack: { model: OTHER, after: 2 } };
/** So that the journal's back-off takes no time. */
const SOON = { 'retry-after': '0.001' };
const AGENT = fileURLToPath(new URL('../support/agents/three-questions.ts', import.meta.url));

const started: RunningCommand[] = [];
afterAll(() => {
  for (const { process } of started) process.kill('SIGKILL'); // what a failed test left behind
});

function modelIn({ body }: Exchange): string {
  return JSON.parse(body.toString()).model;
}

/** The models that the provider was asked, one for each request. */
function modelsAsked(): string[] {
  return bench.provider.exchanges.map(modelIn);
}

/** Answers as the model that was asked. */
function answer(exchange: Exchange): void {
  const message = { ...messageOf(exchange.number, `answer to ${exchange.prompt}`), model: modelIn(exchange) };
  exchange.respond(200, JSON.stringify(message), { 'content-type': 'application/json' });
}

/** Does `refuse` with whoever asks the first model, and answers as the other. */
function trouble(refuse: (exchange: Exchange) => void): void {
  bench.provider.script = (exchange) => (modelIn(exchange) === ASKED ? refuse(exchange) : answer(exchange));
}

function overloaded(exchange: Exchange): void {
  exchange.refuse(529, 'overloaded_error', SOON);
}

interface CallRow {
  dispatch: number;
  model: string;
  askedModel: string;
  request: string;
  sha256: string;
  kind: string;
  cost: string | null;
  worst: string;
}

/** The view `call` of a batch, with the hold of each dispatch. */
async function callsOf(batch: string): Promise<CallRow[]> {
  const { rows } = await bench.db.pool.query<CallRow>(
    `SELECT c.dispatch, c.model, c.asked_model AS "askedModel", c.request, encode(c.request_sha256, 'hex') AS sha256, c.kind,
            c.cost_usd AS cost, i.worst_case_usd AS worst
       FROM madrugada.call c JOIN madrugada.call_intent i USING (batch_key, task_id, seq, dispatch)
      WHERE c.batch_key = $1 ORDER BY c.task_id, c.seq, c.dispatch`,
    [batch],
  );
  return rows;
}

/** What is held for the same call where the code itself names the model. */
async function holdOf(model: string): Promise<string | undefined> {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  bench.provider.script = answer;
  await worker.attempt(batch, (task) => task.anthropic.messages.create({ ...question('one'), model }));
  return (await callsOf(batch))[0]?.worst;
}

test('after two refusals a call asks the fall-back model, and the code gets its answer', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  trouble(overloaded);
  let model: string | undefined;
  const result = await worker.attempt(batch, async (task) => {
    ({ model } = await task.anthropic.messages.create(question('one')));
  });

  expect(result.ending).toBe('completed');
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER]);
  expect(await kindsOf(bench.db, batch)).toEqual(['1.1 refused', '1.2 refused', '1.3 charged']);
  expect(model).toBe(OTHER); // nobody pretends that the other one answered
});

test('each dispatch says which model it asked and which the code asked, and is held and priced as what it is', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  trouble(overloaded);
  await worker.attempt(batch, (task) => ask(task, 'one'));

  const [first, second, third] = await callsOf(batch);
  expect([first, second]).toMatchObject([
    { model: ASKED, askedModel: ASKED, cost: null },
    { model: ASKED, askedModel: ASKED, cost: null },
  ]);
  expect(third).toMatchObject({ model: OTHER, askedModel: ASKED, kind: 'charged' });
  expect(new Set([first?.sha256, second?.sha256, third?.sha256]).size).toBe(1);
  expect(new Big(third?.cost ?? 0).toFixed()).toBe('0.00055'); // 10 × $5 and 20 × $25 a million
  expect(third?.worst).toBe(await holdOf(OTHER));
  expect(first?.worst).toBe(await holdOf(ASKED));
});

test('only the model’s name changes on the way: every other byte is as the code wrote it', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  trouble(overloaded);
  const body = (model: string) =>
    ` {"max_tokens" : 1e2,"metadata":{"model":"mine","x":1.50},\n"model"\t: "${model}", "messages":[{"role":"user","content":"the \\"model\\": ü"}]} `;
  await worker.attempt(batch, (task) => fetchBody(task, body(ASKED)));

  expect(bench.provider.exchanges[2]?.body.toString()).toBe(body(OTHER));
  const [first, , third] = await callsOf(batch);
  expect([first?.request, third?.request]).toEqual([body(ASKED), body(OTHER)]);
});

test('a compressed request falls back as well, and is sent plain', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  const body = (model: string) => `{"model":"${model}","max_tokens":100,"messages":[{"role":"user","content":"one"}]}`;
  bench.provider.script = (exchange) => {
    if (exchange.number <= 2) overloaded(exchange);
    else answer(exchange);
  };
  await worker.attempt(batch, (task) =>
    fetchBody(task, gzipSync(body(ASKED)), { headers: { 'content-encoding': 'gzip' } }),
  );

  const [, , third] = bench.provider.exchanges;
  expect(third?.headers['content-encoding']).toBeUndefined();
  expect(third?.body.toString()).toBe(body(OTHER));
});

test('more output than the fall-back model writes is not asked of it', async () => {
  const batch = await loadTestBatch(bench.db, { fallBack: { model: 'claude-haiku-4-5', after: 1 } });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.number === 1 ? overloaded(exchange) : answer(exchange));
  const body = (model: string, most: number) =>
    `{"model":"${model}","max_tokens":${most},"messages":[{"role":"user","content":"one"}]}`;
  await worker.attempt(batch, (task) => fetchBody(task, body(OTHER, 128_000)));

  expect(bench.provider.exchanges.map((exchange) => exchange.body.toString())).toEqual([
    body(OTHER, 128_000),
    body(ASKED, 64_000),
  ]);
});

test('one refusal fewer than said, and the call stays with its own model', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.number === 1 ? overloaded(exchange) : answer(exchange));
  await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(modelsAsked()).toEqual([ASKED, ASKED]);
  expect((await callsOf(batch)).map(({ askedModel }) => askedModel)).toEqual([ASKED, ASKED]);
});

test('a batch without a fall-back model asks on', async () => {
  const batch = await loadTestBatch(bench.db);
  const worker = await bench.workers.add({ limits: { maxDispatches: 4 } });
  trouble(overloaded);
  await worker.attempt(batch, (task) => ask(task, 'one'));
  expect(modelsAsked()).toEqual([ASKED, ASKED, ASKED, ASKED]);
});

test('each call counts its own refusals', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.number % 2 === 1 ? overloaded(exchange) : answer(exchange));
  await worker.attempt(batch, async (task) => {
    await ask(task, 'one');
    await ask(task, 'two');
    await ask(task, 'three');
  });
  expect(new Set(modelsAsked())).toEqual(new Set([ASKED]));
});

const troubles: [what: string, refuse: (exchange: Exchange) => void][] = [
  ['429', (exchange) => exchange.refuse(429, 'rate_limit_error', SOON)],
  ['500', (exchange) => exchange.refuse(500, 'api_error', SOON)],
  ['503', (exchange) => exchange.refuse(503, 'api_error', SOON)],
  [
    'in a stream',
    (exchange) => {
      exchange.openStream();
      void exchange.send(`event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n`);
      exchange.end();
    },
  ],
];

for (const [what, refuse] of troubles)
  test(`a refusal ${what} counts`, async () => {
    const batch = await loadTestBatch(bench.db, { fallBack: { model: OTHER, after: 1 } });
    const worker = await bench.workers.add();
    trouble(refuse);
    await worker.attempt(batch, (task) => ask(task, 'one'));
    expect(modelsAsked()).toEqual([ASKED, OTHER]);
  });

const ownFaults: [status: number, type: string, message?: string][] = [
  [400, 'invalid_request_error'],
  [401, 'authentication_error'],
  [429, 'insufficient_quota'],
  [400, 'invalid_request_error', 'Your credit balance is too low'],
];

for (const [status, type, message] of ownFaults)
  test(`a refusal ${status} ${message ?? type} is not the provider’s trouble: nobody else is asked`, async () => {
    const batch = await loadTestBatch(bench.db, { fallBack: { model: OTHER, after: 1 } });
    const worker = await bench.workers.add();
    trouble((exchange) => exchange.refuse(status, type, SOON, message));
    await worker.attempt(batch, (task) => ask(task, 'one'));
    expect(modelsAsked()).toEqual([ASKED]);
  });

test('after credentials were refused and replaced, that refusal does not count for the fall-back', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => exchange.refuse(401, 'authentication_error');
  await worker.attempt(batch, (task) => ask(task, 'one'));
  await bench.db.pool.query(
    `BEGIN; SET LOCAL madrugada.by = 'ana'; SET LOCAL madrugada.reason = 'another key'; SELECT madrugada.resume_batch('${batch}'); COMMIT`,
  );
  bench.provider.script = (exchange) => (exchange.number === 2 ? overloaded(exchange) : answer(exchange));
  await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(modelsAsked()).toEqual([ASKED, ASKED, ASKED]);
});

test('a pause of the first model, however long, does not keep the call from the fall-back model', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  trouble((exchange) =>
    exchange.refuse(429, 'rate_limit_error', exchange.number === 1 ? SOON : { 'retry-after': '3600' }),
  );
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER]);
});

test('a task put off before its call was refused so often counts on where it left off', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  trouble((exchange) => exchange.refuse(429, 'rate_limit_error', { 'retry-after': '3600' }));
  const parked = await worker.attempt(batch, (task) => ask(task, 'one'));
  await bench.db.pool.query('DELETE FROM madrugada.provider_pace');
  await bench.db.pool.query(`UPDATE madrugada.task SET not_before = madrugada.now() WHERE batch_key = $1`, [batch]);
  const other = await bench.workers.add();
  const result = await other.attempt(batch, (task) => ask(task, 'one'));

  expect([parked.ending, result.ending]).toEqual(['parked', 'completed']);
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER]);
});

test('a call refused often enough goes to the fall-back model on its next attempt, though its own is paused', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  // the fall-back model is overloaded as well, for longer than a slot waits
  bench.provider.script = (exchange) =>
    exchange.refuse(529, 'overloaded_error', modelIn(exchange) === ASKED ? SOON : { 'retry-after': '3600' });
  const parked = await worker.attempt(batch, (task) => ask(task, 'one'));
  bench.provider.script = answer;
  await bench.db.pool.query(`UPDATE madrugada.provider_pace SET paused_until = 'infinity' WHERE model = $1`, [ASKED]);
  await bench.db.pool.query('DELETE FROM madrugada.provider_pace WHERE model = $1', [OTHER]);
  await bench.db.pool.query(`UPDATE madrugada.task SET not_before = madrugada.now() WHERE batch_key = $1`, [batch]);
  const other = await bench.workers.add();
  await other.env.pace.refresh();
  const result = await other.attempt(batch, (task) => ask(task, 'one'));

  expect([parked.ending, result.ending]).toEqual(['parked', 'completed']);
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER, OTHER]);
});

test('a call falls back before its refusals would have been shown to the code', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add({ limits: { maxDispatches: 2 } });
  trouble(overloaded);
  expect((await worker.attempt(batch, (task) => ask(task, 'one'))).ending).toBe('completed');
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER]);
});

test('counting tokens is no reason to ask another model', async () => {
  const batch = await loadTestBatch(bench.db, { fallBack: { model: OTHER, after: 1 } });
  const worker = await bench.workers.add({ limits: { maxDispatches: 3 } });
  trouble(overloaded);
  await worker.attempt(batch, (task) => countBody(task, JSON.stringify({ model: ASKED, messages: [] })));
  expect(modelsAsked()).toEqual([ASKED, ASKED, ASKED]);
});

test('a call whose cost at the fall-back model has no bound goes on asking its own', async () => {
  const batch = await loadTestBatch(bench.db, { fallBack: { model: 'gpt-5', after: 1 } });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (exchange.number === 1 ? overloaded(exchange) : answer(exchange));
  const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 1 }]; // of which gpt-5 has no fee
  const messages = [{ role: 'user', content: 'one' }];
  await worker.attempt(batch, (task) =>
    fetchBody(task, JSON.stringify({ model: ASKED, max_tokens: 10, tools, messages })),
  );
  expect(modelsAsked()).toEqual([ASKED, ASKED]);
});

test('a call that the fall-back model takes for malformed goes back to its own model, and its task does not fail for that', async () => {
  const batch = await loadTestBatch(bench.db, AFTER_TWO);
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => {
    if (modelIn(exchange) === OTHER) exchange.refuse(400, 'invalid_request_error');
    else if (exchange.number <= 4) overloaded(exchange);
    else answer(exchange);
  };
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result.ending).toBe('completed');
  expect(modelsAsked()).toEqual([ASKED, ASKED, OTHER, ASKED, ASKED]);
  const kinds = ['1.1 refused', '1.2 refused', '1.3 refused', '1.4 refused', '1.5 charged'];
  expect(await kindsOf(bench.db, batch)).toEqual(kinds);
});

test('what the fall-back model may cost at most has to be there: else the task waits for money, and nothing is sent', async () => {
  const cheap = await loadTestBatch(bench.db);
  const worker = await bench.workers.add();
  await worker.attempt(cheap, (task) => ask(task, 'one'));
  const [own] = await callsOf(cheap);
  bench.provider.forget();
  const batch = await loadTestBatch(bench.db, { ...AFTER_TWO, budgetUsd: new Big(own?.worst ?? 0).times(2).toFixed() });
  trouble(overloaded);
  const result = await worker.attempt(batch, (task) => ask(task, 'one'));

  expect(result).toMatchObject({ ending: 'parked', message: expect.stringContaining('the budget of the batch has') });
  expect(modelsAsked()).toEqual([ASKED, ASKED]);
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: '0', held: '0', holds: true });
});

test('while the fall-back model is at work its worst case is held, and then what it cost is spent', async () => {
  const batch = await loadTestBatch(bench.db, { ...AFTER_TWO, budgetUsd: '100' });
  const worker = await bench.workers.add();
  bench.provider.script = (exchange) => (modelIn(exchange) === ASKED ? overloaded(exchange) : undefined);
  const attempt = await worker.start(batch, (task) => ask(task, 'one'));
  const exchange = await bench.provider.arrival(3);
  const during = await proofOf(bench.db, batch);
  answer(exchange);
  await attempt.result;

  const third = (await callsOf(batch))[2];
  expect(during).toMatchObject({ spent: '0', held: third?.worst, holds: true });
  expect(await proofOf(bench.db, batch)).toMatchObject({ spent: '0.00055', held: '0', drawn: '0.00055', holds: true });
});

/** A worker process of its own, to be killed. */
function startWorker(batch: string, slot: string, failpoint = ''): RunningCommand {
  const worker = startCommand(['worker', '--slot', slot, '--batch', batch], {
    environment: { DATABASE_URL: bench.db.url, ANTHROPIC_BASE_URL: bench.provider.url, MADRUGADA_FAILPOINT: failpoint },
  });
  started.push(worker);
  return worker;
}

/** What a killed process leaves of a call with two refusals and a fall-back, and how often each model is asked in the end. */
const deaths = [
  {
    when: 'with its answer recorded',
    at: 'journal.outcome.after:kill@3',
    journal: ['1.1 refused', '1.2 refused', '1.3 charged', '2.1 charged', '3.1 charged'],
    models: [ASKED, ASKED, OTHER, ASKED, ASKED],
  },
  {
    when: 'with its answer received and not recorded',
    at: 'journal.outcome.before:kill@3',
    journal: ['1.1 refused', '1.2 refused', '1.3 -', '1.4 charged', '2.1 charged', '3.1 charged'],
    models: [ASKED, ASKED, OTHER, OTHER, ASKED, ASKED],
  },
  {
    when: 'before it is asked',
    at: 'journal.intent.before:kill@3',
    journal: ['1.1 refused', '1.2 refused', '1.3 charged', '2.1 charged', '3.1 charged'],
    models: [ASKED, ASKED, OTHER, ASKED, ASKED],
  },
];

for (const { when, at, journal, models } of deaths)
  test(`after its worker is killed ${when}, the call is answered by the fall-back model and paid for once where it was recorded`, async () => {
    const batch = await loadTestBatch(bench.db, { ...AFTER_TWO, agent: AGENT });
    bench.provider.script = (exchange) => (exchange.number <= 2 ? overloaded(exchange) : answer(exchange));
    expect((await startWorker(batch, `${batch}/1`, at).result).signal).toBe('SIGKILL');
    const second = startWorker(batch, `${batch}/2`);
    await until('the task is completed', async () => (await taskOf(bench.db, batch)).state === 'completed');
    second.process.kill('SIGTERM');
    await second.result;

    expect(await kindsOf(bench.db, batch)).toEqual(journal);
    expect(modelsAsked()).toEqual(models);
    expect((await taskOf(bench.db, batch)).result).toEqual(['answer to one', 'answer to two', 'answer to three']);
  });

test('the digest of a call that fell back is that of what the code asked', async () => {
  const batch = await loadTestBatch(bench.db, { fallBack: { model: OTHER, after: 1 } });
  const worker = await bench.workers.add();
  trouble(overloaded);
  const canonical = `{"max_tokens":100,"messages":[{"content":"one","role":"user"}],"model":"${ASKED}"}`;
  await worker.attempt(batch, (task) => fetchBody(task, canonical));
  const expected = createHash('sha256').update(`POST\n/v1/messages\n\n${canonical}`).digest('hex');
  expect((await callsOf(batch)).map(({ sha256 }) => sha256)).toEqual([expected, expected]);
});
