import Big from 'big.js';
import type { ClientBase } from 'pg';
import { MadrugadaError } from '../errors.ts';
import type { NewBatch } from './load-batch.ts';

const SHOWN = 20;
/** What the database sets where a load does not say. */
const DEFAULT_STOP_AFTER_FAILURES = 10;

type Existing = {
  readonly state: string;
  readonly sha256: string;
  readonly agent: string;
  readonly same_options: boolean;
  readonly budget_usd: string | null;
  readonly max_attempts: number;
  readonly lease_seconds: number;
  readonly doubt_policy: string;
  readonly task_budget_usd: string | null;
  readonly velocity_usd: string | null;
  readonly max_output_tokens: number | null;
  readonly fall_back_model: string | null;
  readonly fall_back_after: number | null;
  readonly stop_after_failures: number;
  readonly unrehearsed: boolean;
};

/**
 * Compares the list this transaction has copied in with the one loaded before under the same `(id, version)`. Returns, in words, the
 * settings that differ. Throws a MadrugadaError when the tasks or the agent differ.
 */
export async function compareLists(client: ClientBase, batch: NewBatch, tasksSha256: string): Promise<string[]> {
  const key = `${batch.id}:${batch.version}`;
  const existing = await readExisting(client, batch, key);
  if (existing.sha256 !== tasksSha256) {
    throw new MadrugadaError(
      [
        `batch ${key} is already loaded with another list; nothing was changed`,
        ...(await describeDifference(client, key, existing.state)),
        `  load the new list under another version, such as --version ${batch.version}b`,
      ].join('\n'),
    );
  }
  if (existing.agent !== batch.agent || !existing.same_options) {
    const what = existing.agent === batch.agent ? 'other options' : `the agent ${existing.agent}, not ${batch.agent}`;
    throw new MadrugadaError(
      `batch ${key} is already loaded with the same tasks, but for ${what}; nothing was changed. Load it under another version`,
    );
  }
  return differingSettings(existing, batch);
}

async function readExisting(client: ClientBase, batch: NewBatch, key: string): Promise<Existing> {
  const { rows } = await client.query<Existing>(
    `SELECT state, tasks_sha256 AS sha256, agent, agent_options = $2::jsonb AS same_options, budget_usd, max_attempts, lease_seconds, doubt_policy,
            task_budget_usd, velocity_usd, max_output_tokens, fall_back_model, fall_back_after, stop_after_failures, unrehearsed
       FROM madrugada.batch WHERE batch_key = $1`,
    [key, JSON.stringify(batch.agentOptions)],
  );
  const [existing] = rows;
  if (!existing) throw new Error(`batch ${key} exists and cannot be read`);
  return existing;
}

/** Up to 20 differing items, then a count. */
async function describeDifference(client: ClientBase, key: string, state: string): Promise<string[]> {
  if (state === 'archived') return ['  its tasks are archived, so the difference cannot be shown'];
  const { rows } = await client.query<{ item: string; change: string; total: string }>(
    `WITH incoming AS (SELECT item, input FROM madrugada.incoming_task WHERE loading = pg_current_xact_id()),
          loaded AS (SELECT item, input, position FROM madrugada.task WHERE batch_key = $1)
     SELECT item,
            CASE WHEN l.input IS NULL THEN 'added' WHEN i.input IS NULL THEN 'removed' ELSE 'changed' END AS change,
            count(*) OVER () AS total
       FROM incoming i FULL JOIN loaded l USING (item)
      WHERE i.input IS NULL OR l.input IS NULL OR i.input::text <> l.input::text
      ORDER BY l.position, item LIMIT $2`,
    [key, SHOWN],
  );
  if (rows.length === 0) return ['  the tasks are the same, but their order is not'];
  const hidden = Number(rows[0]?.total ?? 0) - rows.length;
  return [
    ...rows.map(({ item, change }) => `  ${change}: item ${item}`),
    ...(hidden > 0 ? [`  and ${hidden} more`] : []),
  ];
}

function differingSettings(existing: Existing, batch: NewBatch): string[] {
  const settings: [name: string, kept: string, asked: string][] = [
    ['budget', dollars(existing.budget_usd), dollars(batch.budgetUsd)],
    ['max-attempts', String(existing.max_attempts), String(batch.maxAttempts)],
    ['lease-seconds', String(existing.lease_seconds), String(batch.leaseSeconds)],
    ['doubt', existing.doubt_policy, batch.doubtPolicy],
    ['task-budget', dollars(existing.task_budget_usd), dollars(batch.limits?.taskBudgetUsd)],
    ['velocity', dollars(existing.velocity_usd), dollars(batch.limits?.velocityUsd)],
    [
      'max-output-tokens',
      String(existing.max_output_tokens ?? 'none'),
      String(batch.limits?.maxOutputTokens ?? 'none'),
    ],
    ['fall-back', existing.fall_back_model ?? 'none', batch.fallBack?.model ?? 'none'],
    ['fall-back-after', String(existing.fall_back_after ?? 'none'), String(batch.fallBack?.after ?? 'none')],
    [
      'stop-after-failures',
      String(existing.stop_after_failures),
      String(batch.stopAfterFailures ?? DEFAULT_STOP_AFTER_FAILURES),
    ],
    ['unrehearsed', String(existing.unrehearsed), String(batch.unrehearsed ?? false)],
  ];
  return settings
    .filter(([, kept, asked]) => kept !== asked)
    .map(([name, kept, asked]) => `it keeps ${name} ${kept}, not ${asked}`);
}

function dollars(usd: string | null | undefined): string {
  return usd == null ? 'none' : new Big(usd).toFixed();
}
