import { setTimeout as wait } from 'node:timers/promises';
import { type ClientBase, DatabaseError } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { asPerson } from './as-person.ts';
import { compareLists } from './compare-lists.ts';
import { copyRow, copyRows } from './copy-rows.ts';
import type { NewTask } from './read-tasks.ts';

/** A batch about to be loaded. */
export type NewBatch = {
  readonly id: string;
  readonly version: string;
  /** A built-in agent's name, or the absolute path of its module. */
  readonly agent: string;
  readonly agentOptions: Readonly<Record<string, string>>;
  /** US dollars as an exact decimal; none: no limit. */
  readonly budgetUsd?: string | undefined;
  readonly limits?: CallLimits | undefined;
  readonly maxAttempts: number;
  readonly leaseSeconds: number;
  readonly doubtPolicy: 'pay_again' | 'hold';
  /** Attempts that fail in a row, none completed meanwhile, before the batch stops by itself; 10 where it is not said. */
  readonly stopAfterFailures?: number | undefined;
  /** Another model that calls ask after so many refusals; none: they ask their own only. */
  readonly fallBack?: { readonly model: string; readonly after: number } | undefined;
  /** Its actions may be proposed although this version of its agent has passed no rehearsal; then `by` must be given. */
  readonly unrehearsed?: boolean | undefined;
  /** Who loads it, for the audit trail. */
  readonly by?: string | undefined;
};

/** What single tasks and calls of a batch, and ten minutes of it, may cost at most; each may be missing. Dollars are exact decimals. */
export type CallLimits = {
  readonly taskBudgetUsd?: string | undefined;
  readonly velocityUsd?: string | undefined;
  /** What a call asks for beyond this is lowered to it before it is sent. */
  readonly maxOutputTokens?: number | undefined;
};

export type LoadedBatch = {
  readonly batchKey: string;
  readonly tasks: number;
  readonly tasksSha256: string;
  /** False when the same list was loaded before: nothing changed. */
  readonly loaded: boolean;
  /** Settings of a batch loaded before that differ from those asked for now, in words; they stay as they are. */
  readonly kept: readonly string[];
};

/** Where `load_batch` takes a list from; only this transaction sees it. */
const COPY = 'COPY madrugada.incoming_task (position, item, input) FROM STDIN';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** Attaching partitions gives up after 300 ms behind another lock (rule R9), such as an export's. */
const LOCK_TRIES = 20;
const LOCK_NOT_AVAILABLE = '55P03';
const UNIQUE_VIOLATION = '23505';

/**
 * Loads a closed list of tasks, all or nothing, in one transaction. `client` is a connection of the role operator. Loading the same list
 * again changes nothing. Throws a MadrugadaError, having changed nothing, when `(id, version)` holds another list (with the difference by
 * item) or another agent, and whatever reading `tasks` throws.
 */
export async function loadBatch(
  client: ClientBase,
  batch: NewBatch,
  tasks: AsyncIterable<NewTask>,
): Promise<LoadedBatch> {
  checkName(batch.id, 'batch');
  checkName(batch.version, 'version');
  return await asPerson(client, { by: batch.by }, async () => {
    await client.query('SAVEPOINT nothing_read');
    await copyRows(client, COPY, taskRows(tasks));
    const incoming = await digestIncoming(client);
    const batchKey = await insertUnlessLoaded(client, batch, incoming);
    if (batchKey !== undefined) return { ...incoming, batchKey, loaded: true, kept: [] };
    const kept = await compareLists(client, batch, incoming.tasksSha256);
    await client.query('ROLLBACK TO SAVEPOINT nothing_read');
    return { ...incoming, batchKey: `${batch.id}:${batch.version}`, loaded: false, kept };
  });
}

async function* taskRows(tasks: AsyncIterable<NewTask>): AsyncGenerator<string> {
  for await (const { position, item, inputJson } of tasks) yield copyRow([position, item, inputJson]);
}

function checkName(name: string, what: string): void {
  if (NAME.test(name)) return;
  throw new MadrugadaError(
    `${what} ${JSON.stringify(name)}: use letters, digits, ".", "_" and "-", at most 100, beginning with a letter or digit`,
  );
}

type Incoming = { readonly tasks: number; readonly tasksSha256: string };

/** The digest of the list: of the digests, in order, of each task's item and input as the database spells them. */
async function digestIncoming(client: ClientBase): Promise<Incoming> {
  const { rows } = await client.query<Incoming>(`
    SELECT count(*)::integer AS tasks,
           encode(sha256(string_agg(sha256(convert_to(jsonb_build_array(item, input)::text, 'UTF8')), '' ORDER BY position)), 'hex') AS "tasksSha256"
      FROM madrugada.incoming_task WHERE loading = pg_current_xact_id()`);
  const [incoming] = rows;
  if (!incoming) throw new Error('an aggregate without a row');
  return incoming;
}

/** Undefined when the batch exists: loaded before, or by another load that committed while this one waited for it. */
async function insertUnlessLoaded(
  client: ClientBase,
  batch: NewBatch,
  incoming: Incoming,
): Promise<string | undefined> {
  for (let attempt = 1; ; attempt++) {
    await client.query('SAVEPOINT list_read');
    try {
      const key = await insertBatch(client, batch, incoming);
      if (batch.unrehearsed) await client.query('SELECT madrugada.allow_unrehearsed($1)', [key]);
      return key;
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      await client.query('ROLLBACK TO SAVEPOINT list_read');
      if (error.code === UNIQUE_VIOLATION && error.table === 'batch') return undefined;
      if (error.code !== LOCK_NOT_AVAILABLE || attempt === LOCK_TRIES) throw error;
      await wait(100 + Math.random() * 400);
    }
  }
}

async function insertBatch(client: ClientBase, batch: NewBatch, incoming: Incoming): Promise<string | undefined> {
  const { rows } = await client.query<{ key: string }>(
    `SELECT madrugada.load_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS key`,
    [
      batch.id,
      batch.version,
      batch.agent,
      JSON.stringify(batch.agentOptions),
      incoming.tasksSha256,
      incoming.tasks,
      batch.budgetUsd ?? null,
      batch.maxAttempts,
      batch.leaseSeconds,
      batch.doubtPolicy,
      JSON.stringify({
        ...batch.limits,
        fallBackModel: batch.fallBack?.model,
        fallBackAfter: batch.fallBack?.after,
        stopAfterFailures: batch.stopAfterFailures,
      }),
    ],
  );
  return rows[0]?.key;
}
