import type { Pool } from 'pg';
import { pino } from 'pino';
import { Agent as HttpAgent } from 'undici';
import { DEFAULT_LIMITS, type JournalEnvironment } from '../src/journal/environment.ts';
import { HoldWatch } from '../src/journal/hold-watch.ts';
import { JournalWriter } from '../src/journal/journal-writer.ts';
import { thisProcess } from '../src/lease/process-identity.ts';
import { registerWorker } from '../src/lease/worker-row.ts';
import { openClient, openPool } from '../src/postgres/connect.ts';
import { Pace } from '../src/provider/pace.ts';
import { readPrices } from '../src/provider/read-prices.ts';

/** A registered worker's journal in this process, with the connections of a worker process. */
export interface OpenJournal {
  env: JournalEnvironment;
  pool: Pool;
  workerId: number;
  close(): Promise<void>;
}

/** Opens one on a migrated database. */
export async function openJournal(url: string): Promise<OpenJournal> {
  const client = await openClient({ url, as: 'worker', applicationName: 'bench register' });
  const workerId = await registerWorker(client, thisProcess());
  await client.end();
  const pool = openPool({ url, as: 'worker', applicationName: `madrugada/w${workerId}/work`, max: 3 });
  const dispatcher = new HttpAgent();
  const env: JournalEnvironment = {
    writer: new JournalWriter(() =>
      openClient({ url, as: 'worker', applicationName: `madrugada/w${workerId}/journal` }),
    ),
    pool,
    dispatcher,
    prices: await readPrices(pool),
    pace: new Pace(pool),
    holds: new HoldWatch(() => undefined),
    limits: DEFAULT_LIMITS,
    lookUp: undefined,
    tagging: { headers: [], litellm: false, body: false },
    log: pino({ enabled: false }),
    onCharge: () => undefined,
    alwaysReplay: false,
  };
  return {
    env,
    pool,
    workerId,
    async close() {
      await env.writer.close();
      await Promise.all([pool.end(), dispatcher.close()]);
    },
  };
}
