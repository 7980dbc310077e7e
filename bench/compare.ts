import { CALLS_PER_TASK, type Contender } from './contender.ts';
import { printRates, secondsOf } from './measure.ts';

/**
 * Runs `tasks` tasks in each of `slots` slots of every contender, in `rounds` interleaved rounds, and prints their calls per second. Every
 * other round goes backwards, so that none always follows the same one. Returns the rates of each by name, round by round.
 */
export async function compare(
  contenders: Contender[],
  slots: number,
  tasks: number,
  rounds: number,
): Promise<Map<string, number[]>> {
  const rates = new Map<string, number[]>(contenders.map(({ name }) => [name, []]));
  for (const { prepare, run } of contenders) {
    await prepare?.(slots, 1);
    await run(slots, 1); // connections and compiled code are not what is measured
  }
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, prepare, run } of round % 2 ? contenders : contenders.toReversed()) {
      await prepare?.(slots, tasks);
      const seconds = await secondsOf(() => run(slots, tasks));
      rates.get(name)?.push((slots * tasks * CALLS_PER_TASK) / seconds);
    }
  }
  printRates(`${slots} slots, ${slots * tasks} tasks of ${CALLS_PER_TASK} calls a round`, 'calls', rates);
  return rates;
}
