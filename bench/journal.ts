import { compare } from './compare.ts';
import type { Contender, Place } from './contender.ts';
import { openBare } from './contender-bare.ts';
import { openDbos } from './contender-dbos.ts';
import { openLangGraph } from './contender-langgraph.ts';
import { openMadrugada } from './contender-madrugada.ts';
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
