import { fileURLToPath } from 'node:url';
import Big from 'big.js';
import { expect, test } from 'vitest';
import agent from '../../examples/agents/licences.ts';
import { licenceQuestions, licenceReports } from '../../examples/licences/generate.ts';
import { checkSchema } from '../../src/agent/define-agent.ts';
import type { BillLine } from '../../src/simulator/bill-file.ts';
import { kindsOf, loadTestBatch, taskOf } from '../support/attempts.ts';
import { nightSimulator } from '../support/night-simulator.ts';
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

function loadQuestions(inputs: readonly object[], maxAttempts = 3): Promise<string> {
  return loadTestBatch(bench.db, { inputs, agent: AGENT, agentOptions: { documents: REPORTS }, maxAttempts });
}

/** The night of a batch at a simulated provider: what it said at its end, and the bill. */
async function simulate(batch: string, environment: Record<string, string> = {}) {
  const simulator = await nightSimulator();
  const night = bench.processes.night(batch, {
    concurrency: 2,
    environment: { ANTHROPIC_BASE_URL: simulator.url, ...environment },
  });
  const { code, stdout } = await night.result;
  return { code, account: JSON.parse(stdout), bill: await simulator.billLines() };
}

function costOf(bill: readonly BillLine[]): string {
  return bill.reduce((sum, { cost_usd }) => sum.plus(cost_usd), new Big(0)).toFixed();
}

function reportOf({ document }: { document: string }): string {
  return licenceReports().find(({ name }) => name === document)?.text ?? '';
}

test('one question takes 25 calls, 7 of the root model and 18 of its readers, and costs US$ 0.41', async () => {
  const batch = await loadQuestions(licenceQuestions(1));
  const { code, account, bill } = await simulate(batch);

  expect(code).toBe(0);
  expect(account).toMatchObject({ completed: 1, calls: 25, usd: '0.41' });
  expect(bill.filter(({ model }) => model.startsWith('claude-opus-'))).toHaveLength(7);
  expect(bill.filter(({ model }) => model.startsWith('claude-haiku-'))).toHaveLength(18);
  expect(costOf(bill)).toBe('0.41');
});

test('an answer is text with citations that stand in the report, word for word', async () => {
  const questions = licenceQuestions(6);
  const batch = await loadQuestions(questions);
  await simulate(batch);

  for (const [index, question] of questions.entries()) {
    const { result } = await taskOf(bench.db, batch, index + 1);
    const { text, citations } = result as { text: string; citations: string[] };
    expect(text).toMatch(/\p{L}/u);
    expect(citations.length).toBeGreaterThan(0);
    for (const citation of citations) expect(reportOf(question)).toContain(citation);
  }
});

test('no two requests are the same, neither of one question nor of several about one report', async () => {
  const aboutOneReport = licenceQuestions(400).filter(({ document }) => document === 'relatorio-15.txt');
  const batch = await loadQuestions(aboutOneReport.slice(0, 3));
  const { bill } = await simulate(batch);

  expect(bill).toHaveLength(75);
  expect(new Set(bill.map(({ request_sha256 }) => request_sha256)).size).toBe(75);
});

test('replayed after every call, a question has the same answer and the same bill', async () => {
  const plain = await loadQuestions(licenceQuestions(1));
  await simulate(plain);
  const replayed = await loadQuestions(licenceQuestions(1));
  const { code, account, bill } = await simulate(replayed, { MADRUGADA_ALWAYS_REPLAY: '1' });

  expect(code).toBe(0);
  expect(account).toMatchObject({ completed: 1, replayed: 25 });
  expect([bill.length, costOf(bill)]).toEqual([25, '0.41']);
  expect((await taskOf(bench.db, replayed)).result).toEqual((await taskOf(bench.db, plain)).result);
});

test('the six readers of a round are asked at the same time, and the root model alone', async () => {
  bench.provider.hold();
  const sentence = reportOf({ document: 'relatorio-01.txt' }).split('\n')[0];
  const night = bench.processes.night(await loadQuestions(licenceQuestions(1)));
  const answer = async (seq: number) => (await bench.provider.arrival(seq)).message(sentence);
  await answer(1);
  for (const { first, weighedBy } of ROUNDS) {
    // none is answered before all six are there
    await bench.provider.arrival(first + 5);
    for (let seq = first; seq < weighedBy; seq += 1) await answer(seq);
    await answer(weighedBy);
  }
  for (const seq of [23, 24, 25]) await answer(seq);

  expect((await night.result).code).toBe(0);
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
