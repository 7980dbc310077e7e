import { afterAll, describe, expect, test } from 'vitest';
import { RunLost } from '../../../src/agent/run-lost.ts';
import { type Sandbox, SandboxBroken } from '../../../src/agent/sandbox/sandbox.ts';
import { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';
import { ENDED_PROGRAMS, type HostileProgram, TOLD_PROGRAMS } from './hostile-programs.ts';
import { openSandbox } from './sandboxes.ts';

/** A sandbox that lives beside the hostile ones: it counts, and is rebuilt by replaying its turns when its thread was ended. */
class Neighbour {
  readonly #pool: SandboxPool;
  #sandbox: Sandbox;
  #states: string[] = [];
  rebuilt = 0;

  constructor(pool: SandboxPool) {
    this.#pool = pool;
    this.#sandbox = openSandbox(pool);
  }

  /** Its next turn shows that nothing of its state is lost or changed. */
  async count(): Promise<void> {
    try {
      await this.#turn(this.#states.length);
    } catch (error) {
      expect(error).toBeInstanceOf(RunLost);
      this.rebuilt += 1;
      this.#sandbox = openSandbox(this.#pool);
      for (let turn = 0; turn <= this.#states.length; turn += 1) if (await this.#turn(turn)) break;
    }
  }

  /** Whether this turn was a new one. */
  async #turn(index: number): Promise<boolean> {
    const code = index === 0 ? 'var seen = [0]; 0' : 'seen.push(seen.length); seen.at(-1)';
    const report = await this.#sandbox.run(index + 1, [code]);
    expect(report.output).toBe(`=> ${index}\n`);
    const known = this.#states[index];
    expect(report.state).toBe(known ?? report.state);
    this.#states[index] = report.state;
    return known === undefined;
  }
}

/** What the last turn says, in the words that the root model or the attempt's error holds. */
async function lastWords(pool: SandboxPool, { turns }: HostileProgram): Promise<{ words: string; isBroken: boolean }> {
  const sandbox = openSandbox(pool);
  try {
    let words = '';
    for (const [index, code] of turns.entries()) {
      const { output, failure } = await sandbox.run(index + 1, [code]);
      words = `${output}${failure ?? ''}`;
      expect(words.length).toBeLessThan(10_000);
    }
    return { words, isBroken: false };
  } catch (error) {
    expect(error).toBeInstanceOf(SandboxBroken);
    return { words: (error as Error).message, isBroken: true };
  } finally {
    sandbox.close();
  }
}

async function expectNewSandboxToWork(pool: SandboxPool): Promise<void> {
  const sandbox = openSandbox(pool);
  expect((await sandbox.run(1, ["await llm('well?')"])).output).toBe('=> re: well?\n');
  sandbox.close();
}

describe('The root model is told, and every sandbox goes on, after', () => {
  const pool = new SandboxPool({ threads: 2, hardLimitMs: 30_000 });
  const neighbours = [new Neighbour(pool), new Neighbour(pool)];
  afterAll(() => pool.close());

  test.each(TOLD_PROGRAMS)('$what', async (program) => {
    await Promise.all(neighbours.map((neighbour) => neighbour.count()));

    const { words, isBroken } = await lastWords(pool, program);

    expect(words).toMatch(program.told);
    expect(isBroken).toBe(/memory (of the sandbox )?is used up/.test(words));
    await expectNewSandboxToWork(pool);
    await Promise.all(neighbours.map((neighbour) => neighbour.count()));
    expect(neighbours.map(({ rebuilt }) => rebuilt)).toEqual([0, 0]);
  });
});

describe('Its sandbox is ended, and all others go on or are rebuilt, after', () => {
  const pool = new SandboxPool({ threads: 2, hardLimitMs: 1000 });
  const neighbours = [new Neighbour(pool), new Neighbour(pool)];
  afterAll(() => pool.close());

  test.each(ENDED_PROGRAMS)('$what', async (program) => {
    await Promise.all(neighbours.map((neighbour) => neighbour.count()));
    const rebuilt = neighbours.map((neighbour) => neighbour.rebuilt);

    const { words, isBroken } = await lastWords(pool, program);

    expect(words).toMatch(program.told);
    expect(isBroken).toBe(true);
    await expectNewSandboxToWork(pool);
    await Promise.all(neighbours.map((neighbour) => neighbour.count()));
    const lost = neighbours.filter((neighbour, index) => neighbour.rebuilt !== rebuilt[index]);
    expect(lost.length).toBe(1); // the one that shared its thread
  });
});
