import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Big from 'big.js';
import { beforeAll, expect, test } from 'vitest';
import agent from '../../examples/agents/licences.ts';
import { licenceQuestions, licenceReports } from '../../examples/licences/generate.ts';
import { checkSchema } from '../../src/agent/define-agent.ts';
import type { BillLine } from '../../src/simulator/bill-file.ts';
import { forkSimulator, temporaryFolder } from '../simulator/forked-simulator.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { workerBench } from '../support/worker-processes.ts';

const bench = workerBench();
const AGENT = fileURLToPath(new URL('../../examples/agents/licences.ts', import.meta.url));
const REPORTS = fileURLToPath(new URL('../../examples/licences/reports', import.meta.url));
/** The calls of one question, as seq: the root model's, and in between the three rounds of its readers. */
const ROUNDS = [
  { first: 2, weighedBy: 8 },
  { first: 9, weighedBy: 15 },
  { first: 16, weighedBy: 22 },
];

/** Three questions about one report. */
const QUESTIONS = licenceQuestions(400)
  .filter(({ document }) => document === 'relatorio-15.txt')
  .slice(0, 3);

interface SimulatedNight {
  batch: string;
  /** What the night said at its end. */
  account: object;
  bill: BillLine[];
}

let night: SimulatedNight;
beforeAll(async () => {
  night = await simulate(QUESTIONS);
});

function loadQuestions(inputs: readonly object[], maxAttempts = 3): Promise<string> {
  return loadTestBatch(bench.db, { inputs, agent: AGENT, agentOptions: { documents: REPORTS }, maxAttempts });
}

/** A night of these questions at a simulated provider of its own. */
async function simulate(inputs: readonly object[], environment: Record<string, string> = {}): Promise<SimulatedNight> {
  const folder = await temporaryFolder();
  const simulator = await forkSimulator(join(folder.path, 'bill.jsonl'));
  try {
    const batch = await loadQuestions(inputs);
    const { stdout } = await bench.processes.night(batch, {
      concurrency: 2,
      environment: { ANTHROPIC_BASE_URL: simulator.url, ...environment },
    }).result;
    return { batch, account: JSON.parse(stdout), bill: await simulator.billLines() };
  } finally {
    await simulator.stop();
    await folder.remove();
  }
}

function costOf(bill: readonly BillLine[]): string {
  return bill.reduce((sum, { cost_usd }) => sum.plus(cost_usd), new Big(0)).toFixed();
}

function reportOf({ document }: { document: string }): string {
  return licenceReports().find(({ name }) => name === document)?.text ?? '';
}

test('each question takes 25 calls and costs US$ 0.41', async () => {
  const { rows } = await bench.db.pool.query(
    `SELECT calls, journal_usd AS usd FROM madrugada.audit_task_charges WHERE batch_key = $1`,
    [night.batch],
  );

  expect(rows).toEqual(QUESTIONS.map(() => ({ calls: 25, usd: '0.4100' })));
});

test('on the provider’s bill, 7 of 25 are calls of the root model and 18 of its readers', () => {
  expect(night.account).toMatchObject({ completed: 3, failed: 0, calls: 75, usd: '1.23' });
  expect(night.bill.filter(({ model }) => model.startsWith('claude-opus-'))).toHaveLength(3 * 7);
  expect(night.bill.filter(({ model }) => model.startsWith('claude-haiku-'))).toHaveLength(3 * 18);
  expect(costOf(night.bill)).toBe('1.23');
});

test('no two requests are the same, neither of one question nor of several about one report', () => {
  expect(new Set(night.bill.map(({ request_sha256 }) => request_sha256)).size).toBe(75);
});

test('an answer is text with citations that stand in the report, word for word', async () => {
  for (const [index, question] of QUESTIONS.entries()) {
    const { result } = await taskOf(bench.db, night.batch, index + 1);
    const { text, citations } = result as { text: string; citations: string[] };
    expect(text).toMatch(/\p{L}/u);
    expect(citations.length).toBeGreaterThan(0);
    for (const citation of citations) expect(reportOf(question)).toContain(citation);
  }
});

test('replayed after every call, a question has the same answer and the same bill', async () => {
  const replayed = await simulate(QUESTIONS.slice(0, 1), { MADRUGADA_ALWAYS_REPLAY: '1' });

  expect(replayed.account).toMatchObject({ completed: 1, replayed: 25 });
  expect([replayed.bill.length, costOf(replayed.bill)]).toEqual([25, '0.41']);
  const { result } = await taskOf(bench.db, night.batch);
  expect((await taskOf(bench.db, replayed.batch)).result).toEqual(result);
});

test('the six readers of a round are asked at the same time, and the root model alone', async () => {
  bench.provider.hold();
  const sentence = reportOf({ document: 'relatorio-01.txt' }).split('\n')[0];
  const held = bench.processes.night(await loadQuestions(licenceQuestions(1)));
  const answer = async (seq: number) => (await bench.provider.arrival(seq)).message(sentence);
  await answer(1);
  for (const { first, weighedBy } of ROUNDS) {
    // none is answered before all six are there
    await bench.provider.arrival(first + 5);
    for (let seq = first; seq < weighedBy; seq += 1) await answer(seq);
    await answer(weighedBy);
  }
  for (const seq of [23, 24, 25]) await answer(seq);

  expect((await held.result).code).toBe(0);
  expect(bench.provider.requestCount).toBe(25);
});

test('what is asked depends on what was answered before, so that an unfaithful replay would show', async () => {
  bench.provider.script = (exchange) => exchange.message(`Resposta ${exchange.number}.`);
  await bench.processes.night(await loadQuestions(licenceQuestions(1), 1)).result;
  const prompts = bench.provider.exchanges.map(({ prompt }) => prompt);
  const asked = (seq: number) => prompts[seq - 1] ?? '';

  for (const { first, weighedBy } of ROUNDS) {
    for (let seq = first; seq < weighedBy; seq += 1) {
      expect(asked(seq)).toContain(`Resposta ${first - 1}.`);
      expect(asked(weighedBy)).toContain(`Resposta ${seq}.`);
    }
  }
  for (const seq of [23, 24, 25]) expect(asked(seq)).toContain(`Resposta ${seq - 1}.`);
});

test('an answer that cites what does not stand in the report is rejected, although it was paid for', async () => {
  bench.provider.script = (exchange) => exchange.message('O limite é de 99 decibéis.');
  const batch = await loadQuestions(licenceQuestions(1), 1);
  const { code } = await bench.processes.night(batch).result;

  expect(code).toBe(1);
  expect(await taskOf(bench.db, batch)).toMatchObject({
    state: 'failed',
    result: null,
    failure: {
      kind: 'agent',
      message: 'this citation does not stand in relatorio-01.txt: O limite é de 99 decibéis.',
    },
  });
  expect(await kindsOf(bench.db, batch)).toHaveLength(25);
});

test('a document that is a path is refused before the night', async () => {
  const { problems } = await checkSchema(agent.input, { question: 'Qual?', document: '../generate.ts' });

  expect(problems).toEqual([expect.stringMatching(/^document: /)]);
});
