import pg from 'pg';
import { CALLS_PER_TASK, type Contender, inSlots, type Place } from './contender.ts';
import { callProvider, question } from './provider.ts';

/** The least that "intent before, outcome after" can cost: two commits a call, one connection a slot, no checks. */
export async function openBare({ databaseUrl, providerUrl }: Place): Promise<Contender> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 64 });
  pool.on('error', () => undefined); // the server stops while idle connections still say goodbye
  await pool.query(`
    CREATE TABLE intent (task text, seq integer, request bytea, PRIMARY KEY (task, seq));
    CREATE TABLE outcome (task text, seq integer, response bytea, PRIMARY KEY (task, seq))`);
  return {
    name: 'bare two commits',
    run: (slots, tasks) =>
      inSlots(slots, tasks, async (name) => {
        const client = await pool.connect();
        for (let n = 0; n < CALLS_PER_TASK; n += 1) {
          const request = Buffer.from(question(name, n));
          await client.query({ name: 'i', text: 'INSERT INTO intent VALUES ($1, $2, $3)', values: [name, n, request] });
          const response = Buffer.from(await callProvider(providerUrl, name, n));
          await client.query({
            name: 'o',
            text: 'INSERT INTO outcome VALUES ($1, $2, $3)',
            values: [name, n, response],
          });
        }
        client.release();
      }),
    close: () => pool.end(),
  };
}
