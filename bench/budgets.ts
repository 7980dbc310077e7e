import { loadavg } from 'node:os';
import { compare } from './compare.ts';
import type { Contender, Place } from './contender.ts';
import { openBare } from './contender-bare.ts';
import { type Caps, openMadrugada } from './contender-madrugada.ts';
import { median } from './measure.ts';
import { startProvider } from './provider.ts';
import { Server } from './server.ts';

const SLOTS = 64;
const TASKS_PER_SLOT = 4;
const TARGET = 0.9;

/** Every kind of limit there is, and none that is reached, though the batch may spend only twice what it does: what is measured is the counting. */
const CAPS: Caps = {
  batch: { budgetUsd: '6', limits: { taskBudgetUsd: '1', velocityUsd: '100' } },
  month: '100000',
};

/** A request of some 20 words, whose answer is as long as it may be: its hold is about what it costs, as near the cap as it gets. */
const USAGE = { input_tokens: 25, output_tokens: 80 };

/** What budgets cost: the same calls with no limit at all and with every kind of limit, interleaved, beside the bare protocol. */
export async function benchBudgets(rounds: number): Promise<void> {
  const server = await Server.start();
  const provider = await startProvider(USAGE);
  const contenders: Contender[] = [];
  try {
    const place = async (name: string): Promise<Place> => ({
      databaseUrl: await server.database(name),
      providerUrl: provider.url,
    });
    contenders.push(await openMadrugada(await place('on_bench'), { name: 'budgets on', caps: CAPS }));
    contenders.push(await openMadrugada(await place('off_bench'), { name: 'budgets off' }));
    contenders.push(await openBare(await place('bare_bench')));
    printRatio(await compare(contenders, SLOTS, TASKS_PER_SLOT, rounds));
  } finally {
    for (const contender of contenders) await contender.close();
    provider.close();
    await server.stop();
  }
}

/** The ratio of the medians, and how far it went apart from round to round. */
function printRatio(rates: Map<string, number[]>): void {
  const on = rates.get('budgets on') ?? [];
  const off = rates.get('budgets off') ?? [];
  const ratio = median(on) / median(off);
  const byRound = on.map((rate, round) => rate / (off[round] ?? Number.NaN)).sort((a, b) => a - b);
  const load = loadavg().map((value) => value.toFixed(2));
  process.stdout.write(
    `on / off: ${ratio.toFixed(3)}, meant to be at least ${TARGET}${ratio < TARGET ? '   MISSED' : '   met'}\n` +
      `round by round from ${byRound[0]?.toFixed(3)} to ${byRound.at(-1)?.toFixed(3)}, median ${median(byRound).toFixed(3)}; load average ${load.join(' ')}\n`,
  );
}
