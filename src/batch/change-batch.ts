import type { ClientBase } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { asPerson, type Said } from './as-person.ts';
import { type Batch, findBatch } from './find-batch.ts';

/** What a person says who stops something. `now`: what is in flight is not waited for, and stays in doubt. */
export type StopSaid = Said & { readonly reason: string; readonly now?: boolean };

/**
 * Stops an open batch: no further call is sent, running tasks are given back once their calls in flight are recorded. Returns false when it
 * is stopped already. `client` is a connection of the role operator, here and below; all throw a MadrugadaError when the batch is in no
 * state for it.
 */
export async function stopBatch(client: ClientBase, name: string, said: StopSaid): Promise<boolean> {
  const batch = await findBatch(client, name);
  const stopped = await stop(
    client,
    said,
    'SELECT madrugada.stop_batch($1, $2) AS stopped',
    [batch.key, said.reason],
    batch.key,
  );
  if (stopped) return true;
  return expectState(await findBatch(client, batch.key), 'stopped', 'stopped');
}

/** Opens a stopped batch again. Returns false when it is open already. */
export async function resumeBatch(
  client: ClientBase,
  name: string,
  said: { by: string; reason: string },
): Promise<boolean> {
  const batch = await findBatch(client, name);
  const resumed = await call(client, said, 'SELECT madrugada.resume_batch($1) AS result', [batch.key]);
  if (resumed === true) return true;
  return expectState(await findBatch(client, batch.key), 'open', 'resumed');
}

/** Stops every batch at once: no further call is sent by anybody. Returns false when everything is stopped already. */
export async function stopEverything(client: ClientBase, said: StopSaid): Promise<boolean> {
  return await stop(client, said, 'SELECT madrugada.stop_everything($1) AS stopped', [said.reason], null);
}

async function stop(
  client: ClientBase,
  said: StopSaid,
  sql: string,
  values: unknown[],
  batchKey: string | null,
): Promise<boolean> {
  return await asPerson(client, said, async () => {
    const { rows } = await client.query<{ stopped: boolean }>(sql, values);
    if (said.now) await client.query('SELECT madrugada.cut_off($1)', [batchKey]);
    return rows[0]?.stopped === true;
  });
}

/**
 * Lets work go on after a stop of everything; batches that are stopped themselves stay so. Where the server is another than the one this
 * database knew (rule R15), it counts as looked at from now on.
 */
export async function resumeEverything(
  client: ClientBase,
  said: { by: string; reason: string },
): Promise<{ lifted: boolean; confirmedServer: boolean }> {
  return await asPerson(client, said, async () => {
    const { rows } = await client.query<{ known: boolean }>('SELECT madrugada.server_is_known() AS known');
    const confirmedServer = rows[0]?.known === false;
    if (confirmedServer) await client.query('SELECT madrugada.confirm_server_identity()');
    const { rows: lifts } = await client.query<{ lifted: boolean }>('SELECT madrugada.lift_stop() AS lifted');
    return { lifted: lifts[0]?.lifted === true, confirmedServer };
  });
}

/**
 * Closes a batch whose tasks are all completed or failed and whose doubts can bring no late answer any more. With `giveUpPending`, the
 * pending tasks of a stopped batch are failed first. Returns false when it is closed already.
 */
export async function closeBatch(
  client: ClientBase,
  name: string,
  said: Said,
  giveUpPending: boolean,
): Promise<boolean> {
  const batch = await findBatch(client, name);
  if (batch.state === 'closed' || batch.state === 'archived') return false;
  if (giveUpPending && batch.state !== 'stopped') {
    throw new MadrugadaError(`batch ${batch.key} is ${batch.state}: stop it first, then give up its pending tasks`);
  }
  await asPerson(client, said, async () => {
    const { rows } = await client.query<{ obstacle: string | null }>(
      'SELECT madrugada.close_batch($1, $2) AS obstacle',
      [batch.key, giveUpPending],
    );
    const obstacle = rows[0]?.obstacle;
    // Thrown inside the transaction: giving up some tasks without closing would be half a command.
    if (obstacle != null)
      throw new MadrugadaError(`batch ${batch.key} cannot be closed: ${obstacle}; nothing was changed`);
  });
  return true;
}

async function call(client: ClientBase, said: Said, sql: string, values: unknown[]): Promise<boolean | undefined> {
  return await asPerson(client, said, async () => {
    const { rows } = await client.query<{ result: boolean }>(sql, values);
    return rows[0]?.result;
  });
}

function expectState(batch: Batch, wanted: Batch['state'], verb: string): false {
  if (batch.state === wanted) return false;
  throw new MadrugadaError(`batch ${batch.key} is ${batch.state} and cannot be ${verb}`);
}
