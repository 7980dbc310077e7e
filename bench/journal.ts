import { CALLS_PER_TASK, type Contender, type Place } from './contender.ts';
import { openBare } from './contender-bare.ts';
import { openDbos } from './contender-dbos.ts';
import { openLangGraph } from './contender-langgraph.ts';
import { openMadrugada } from './contender-madrugada.ts';
import { printRates, secondsOf } from './measure.ts';
import { startProvider } from './provider.ts';
import { Server } from './server.ts';

/** Tasks that each slot runs in one round, by the number of slots: long enough to measure, short enough for five rounds. */
const TASKS: Record<number, number> = { 4: 10, 64: 2 };

/** Journaled calls per second beside the bare protocol and peers: interleaved rounds on one server, medians. */
export async function benchJournal(rounds: number): Promise<void> {
  const server = await Server.start();
  const provider = await startProvider();
  const contenders: Contender[] = [];
  try {
    const place = async (name: string): Promise<Place> => ({
      databaseUrl: await server.database(name),
      providerUrl: provider.url,
    });
    contenders.push(await openMadrugada(await place('madrugada_bench')));
    contenders.push(await openBare(await place('bare_bench')));
    contenders.push(await openDbos(await place('dbos_bench')));
    contenders.push(await openLangGraph(await place('langgraph_bench')));
    for (const [slots, tasks] of Object.entries(TASKS)) await compare(contenders, Number(slots), tasks, rounds);
  } finally {
    for (const contender of contenders) await contender.close();
    provider.close();
    await server.stop();
  }
}

async function compare(contenders: Contender[], slots: number, tasks: number, rounds: number): Promise<void> {
  const rates = new Map<string, number[]>(contenders.map(({ name }) => [name, []]));
  for (const { prepare, run } of contenders) {
    await prepare?.(slots, 1);
    await run(slots, 1); // connections and compiled code are not what is measured
  }
  for (let round = 1; round <= rounds; round += 1) {
    for (const { name, prepare, run } of contenders) {
      await prepare?.(slots, tasks);
      const seconds = await secondsOf(() => run(slots, tasks));
      rates.get(name)?.push((slots * tasks * CALLS_PER_TASK) / seconds);
    }
  }
  printRates(`${slots} slots, ${slots * tasks} tasks of ${CALLS_PER_TASK} calls a round`, 'calls', rates);
}
