import type { ActionOutcome } from '../../src/action/define-action.ts';
import type { AttemptResult } from '../../src/worker/run-attempt.ts';
import { type ActionBench, transferDefinition } from './action-bench.ts';
import { loadTestBatch } from './attempts.ts';

/** A transfer that a task has proposed, and waits for. */
export interface Proposal {
  batch: string;
  task: string;
  id: number;
  /** What the task was told, attempt by attempt. */
  outcomes: ActionOutcome[];
  /** The next attempt of the task; throws while it waits. */
  goOn(): Promise<AttemptResult>;
}

export const MOVE = { from: 1, to: 2, amount: '300.00' };

/** Has a task of a batch of its own propose a transfer of 300 from account 1 to 2. */
export async function propose(
  bench: ActionBench,
  changes: Parameters<typeof transferDefinition>[0] = {},
): Promise<Proposal> {
  const batch = await bench.allow(await loadTestBatch(bench.db));
  const transfer = transferDefinition(changes);
  const outcomes: ActionOutcome[] = [];
  const goOn = async () => {
    const worker = await bench.workers.add();
    const attempt = await bench.start(worker, batch, [transfer], async (task) => {
      outcomes.push(await task.action(transfer, MOVE));
    });
    return attempt.result;
  };
  const { message } = await goOn();
  const { rows } = await bench.db.pool.query<{ id: number; item: string }>(
    'SELECT id, item FROM madrugada.action WHERE batch_key = $1',
    [batch],
  );
  const [action] = rows;
  if (action === undefined) throw new Error(`nothing was proposed: ${message}`);
  return { batch, task: batch.replace(':', `:${action.item}:`), id: action.id, outcomes, goOn };
}

/** Kinds of the alerts of a batch that nobody has acknowledged. */
export async function openAlertsOf({ db }: ActionBench, batch: string): Promise<string[]> {
  const { rows } = await db.pool.query<{ kind: string }>(
    'SELECT kind FROM madrugada.alert WHERE batch_key = $1 AND acknowledged_at IS NULL ORDER BY id',
    [batch],
  );
  return rows.map(({ kind }) => kind);
}

/** What the audit trail says of an action, such as `approved by ana`. */
export async function passagesOf({ db }: ActionBench, id: number): Promise<string[]> {
  const { rows } = await db.pool.query<{ passage: string }>(
    `SELECT concat_ws(' by ', event, by_name) AS passage FROM madrugada.audit_event WHERE action_id = $1 ORDER BY id`,
    [id],
  );
  return rows.map(({ passage }) => passage);
}
