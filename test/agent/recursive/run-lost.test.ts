import { expect, test } from 'vitest';
import type { Agent } from '../../../src/agent/define-agent.ts';
import { RunLost } from '../../../src/agent/run-lost.ts';
import { kindsOf, taskOf } from '../../support/attempts.ts';
import { ask } from '../../support/journal-bench.ts';
import { ANSWER, ANSWERED, agentRecursive, QUESTION, recursiveBench } from '../../support/recursive-bench.ts';

const bench = recursiveBench();

/** The agent, losing its first run when that has its answer. */
function losingOnce(agent: Agent): { agent: Agent; runs: () => number } {
  let runs = 0;
  return {
    agent: {
      ...agent,
      async run(task) {
        runs += 1;
        const answer = await agent.run(task);
        if (runs === 1) throw new RunLost('the sandbox was lost with its thread');
        return answer;
      },
    },
    runs: () => runs,
  };
}

test('a run that is lost starts over within its attempt and pays nothing twice', async () => {
  bench.play({ [QUESTION]: ['print(await llmBatch(["one", "two"]));', ANSWER] });
  const batch = await bench.load();
  const { agent, runs } = losingOnce(agentRecursive);
  const result = await bench.attempt(batch, undefined, agent);

  expect(result).toMatchObject({ ending: 'completed', replayedCalls: 4 });
  expect(runs()).toBe(2);
  expect(bench.repeated).toEqual([]);
  expect(await taskOf(bench.journal.db, batch)).toMatchObject({ result: ANSWERED, attempts: 1 });
});

test('what was under way when a run was lost is waited for, recorded and used', async () => {
  const { promise: lost, resolve: lose } = Promise.withResolvers<void>();
  let runs = 0;
  bench.journal.provider.script = async (exchange) => {
    await bench.journal.provider.arrival(2);
    lose();
    await new Promise(setImmediate);
    exchange.message();
  };
  const agent = {
    ...agentRecursive,
    check: () => undefined,
    async run(task: Parameters<Agent['run']>[0]) {
      runs += 1;
      const answers = Promise.all([ask(task, 'one'), ask(task, 'two')]);
      if (runs > 1) return { text: (await answers).join(), citations: [] };
      await lost;
      throw new RunLost('gone');
    },
  };
  const batch = await bench.load();
  const result = await bench.attempt(batch, undefined, agent);

  expect(result.ending).toBe('completed');
  expect(await kindsOf(bench.journal.db, batch)).toEqual(['1.1 charged', '2.1 charged']);
  expect((await taskOf(bench.journal.db, batch)).result).toMatchObject({ text: 'answer to one,answer to two' });
});

test('what a lost run still asks for is not sent', async () => {
  const { promise: again, resolve: goOn } = Promise.withResolvers<void>();
  let late: Promise<string> | undefined;
  let runs = 0;
  const agent = {
    ...agentRecursive,
    check: () => undefined,
    async run(task: Parameters<Agent['run']>[0]) {
      runs += 1;
      if (runs === 1) {
        late = again.then(() => ask(task, 'late')).catch((error: Error) => error.message);
        throw new RunLost('gone');
      }
      goOn();
      return { text: (await late) ?? '', citations: [] };
    },
  };
  const batch = await bench.load();
  const result = await bench.attempt(batch, undefined, agent);

  expect(result.ending).toBe('completed');
  expect((await taskOf(bench.journal.db, batch)).result).toMatchObject({
    text: expect.stringContaining('was not sent'),
  });
  expect(bench.journal.provider.requestCount).toBe(0);
});

test('code that uses up the memory of its sandbox loses no run: it is told so, and the root model goes on', async () => {
  const greedy = 'const all = []; for (;;) all.push("x".repeat(1_000_000) + all.length);';
  const { result } = await bench.run([greedy, ANSWER]);

  expect(bench.told[0]).toContain('The code failed: InternalError: out of memory');
  expect(result.ending).toBe('completed');
});

test('a run that is lost again and again fails its attempt, and not for good', async () => {
  bench.play({ [QUESTION]: ['print(await llm("one"));', ANSWER] });
  const batch = await bench.load();
  let runs = 0;
  const agent: Agent = {
    ...agentRecursive,
    async run(task) {
      runs += 1;
      if (runs === 1) await ask(task, 'recorded');
      throw new RunLost('the sandbox was lost with its thread');
    },
  };
  const result = await bench.attempt(batch, undefined, agent);

  expect(result).toMatchObject({ ending: 'failed', isFinal: false, message: 'the sandbox was lost with its thread' });
  expect(runs).toBe(11);
});
