import { type ClientBase, DatabaseError } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { asPerson } from './as-person.ts';
import { parseTaskKey } from './task-key.ts';

const RAISED = 'P0001';

/**
 * Sends a failed task back to pending with fresh attempts. With `payAgainFrom`, its recorded calls from that number on are not replayed but
 * paid again. `client` is a connection of the role operator. Throws a MadrugadaError when there is no such task or call, when the task has
 * not failed, or when its batch takes no more work.
 */
export async function retryTask(
  client: ClientBase,
  key: string,
  said: { by: string; reason: string },
  payAgainFrom?: number,
): Promise<void> {
  parseTaskKey(key);
  await asPerson(client, said, async () => {
    const task = await findTask(client, key);
    if (!(await sendBack(client, task.id, payAgainFrom))) {
      throw new MadrugadaError(
        `task ${key} is ${task.state}; only a failed task is sent back, or with --pay-again-from one that waits for a doubt to be settled`,
      );
    }
  });
}

type FoundTask = { readonly id: number; readonly state: string };

async function findTask(client: ClientBase, key: string): Promise<FoundTask> {
  const { rows } = await client.query<FoundTask>('SELECT id, state FROM madrugada.task WHERE key = $1', [key]);
  if (!rows[0]) throw new MadrugadaError(`no task ${key}; madrugada status ID lists a batch's tasks by state`);
  return rows[0];
}

async function sendBack(client: ClientBase, task: number, payAgainFrom: number | undefined): Promise<boolean> {
  try {
    const { rows } = await client.query<{ sent: boolean }>('SELECT madrugada.retry_task($1, $2) AS sent', [
      task,
      payAgainFrom ?? null,
    ]);
    return rows[0]?.sent === true;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === RAISED) {
      throw new MadrugadaError(`${error.message}; nothing was changed`, 2, { cause: error });
    }
    throw error;
  }
}
