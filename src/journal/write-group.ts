import type { ClientBase } from 'pg';
import type { SpendingNote } from './held-by-batch.ts';
import type { IntentRow, OutcomeRow, StepRow } from './rows.ts';

/** Rows that go out in one statement and so in one commit. */
export interface Group {
  steps: StepRow[];
  outcomes: OutcomeRow[];
  intents: IntentRow[];
}

/** What came back: rows that the fence refused, or that were there already, are missing. */
export interface Written {
  steps: Map<string, number>;
  outcomes: Map<string, { completedNo: number; answers: boolean }>;
  intents: Set<string>;
}

/** Up to this many rows a group's statement is prepared once per shape: planning costs more than sending then. */
const PREPARED_ROWS = 12;

const STEP_COLUMNS = 'batch_key, task_id, scope, kind, name, occurrence, attempt, worker_id, lease_token, value';
const OUTCOME_COLUMNS = `batch_key, task_id, seq, dispatch, kind, status, error, shown, provider_request_id, message_id, response_headers, response,
  input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_usd`;
const INTENT_COLUMNS = `batch_key, task_id, seq, dispatch, scope, request_sha256, occurrence, attempt, worker_id, slot, lease_token, after_no,
  method, path, model, asked_model, request, worst_case_usd, tag, deadline_at`;

/**
 * Writes a group as one multi-row statement. Intents pass the fence of db/migrations/0005_journal.sql, which locks their tasks: they are
 * sorted by task, so that two processes never wait for each other in a circle. Binary parameters, because arrays travel as text (measured:
 * half the speed). `notes` on spending go along in the same commit.
 */
export async function writeGroup(
  client: ClientBase,
  { steps, outcomes, intents }: Group,
  notes: SpendingNote[] = [],
): Promise<Written> {
  const parameters: unknown[] = [];
  const tuple = (values: unknown[]) => `(${values.map((value) => `$${parameters.push(value)}`).join(', ')})`;
  const parts: string[] = [];

  if (steps.length > 0)
    parts.push(`steps AS (INSERT INTO madrugada.step_record (${STEP_COLUMNS})
      VALUES ${steps.map((row) => tuple(stepValues(row))).join(', ')}
      ON CONFLICT DO NOTHING RETURNING task_id, scope, kind, name, occurrence, completed_no)`);
  if (outcomes.length > 0)
    parts.push(`outcomes AS (INSERT INTO madrugada.call_outcome (${OUTCOME_COLUMNS})
      VALUES ${outcomes.map((row) => tuple(outcomeValues(row))).join(', ')}
      ON CONFLICT (batch_key, task_id, seq, dispatch, kind) DO NOTHING RETURNING task_id, seq, dispatch, kind, completed_no, answers)`);
  if (intents.length > 0)
    parts.push(`intents AS (INSERT INTO madrugada.call_intent (${INTENT_COLUMNS})
      VALUES ${[...intents]
        .sort((a, b) => a.lease.taskId - b.lease.taskId)
        .map((row) => tuple(intentValues(row)).replace(/\$(\d+)\)$/, 'madrugada.now() + make_interval(secs => $$$1))'))
        .join(', ')}
      ON CONFLICT DO NOTHING RETURNING task_id, seq, dispatch)`);

  const selects = [
    steps.length > 0 &&
      `SELECT 's', task_id, scope, kind::text, name, occurrence, completed_no, NULL::boolean FROM steps`,
    outcomes.length > 0 &&
      `SELECT 'o', task_id, seq::text, kind::text, NULL, dispatch, completed_no, answers FROM outcomes`,
    intents.length > 0 && `SELECT 'i', task_id, seq::text, NULL, NULL, dispatch, NULL, NULL FROM intents`,
    ...notes.map(
      ({ batchKey, workerId, settledUsd, heldUsd }) =>
        `SELECT 'n', 0, madrugada.note_spending${tuple([batchKey, workerId, settledUsd, heldUsd])}::text, NULL, NULL, 0, NULL, NULL`,
    ),
  ].filter((part) => part !== false);
  const text = `WITH ${parts.join(', ')} ${selects.join(' UNION ALL ')}`;
  const isCommon = steps.length + outcomes.length + intents.length <= PREPARED_ROWS;
  const name = `group ${steps.length} ${outcomes.length} ${intents.length} ${notes.length}`;
  const { rows } = await client.query<WrittenRow>({
    text,
    values: parameters,
    rowMode: 'array',
    ...(isCommon && { name }),
  });
  return collect(rows);
}

type WrittenRow = ['s' | 'o' | 'i' | 'n', number, string, string, string, number, number, boolean];

function collect(rows: WrittenRow[]): Written {
  const written: Written = { steps: new Map(), outcomes: new Map(), intents: new Set() };
  for (const [table, taskId, third, kind, name, number, completedNo, answers] of rows) {
    if (table === 's') written.steps.set(`${taskId} ${third} ${kind} ${name} ${number}`, completedNo);
    else if (table === 'o') written.outcomes.set(`${taskId} ${third} ${number} ${kind}`, { completedNo, answers });
    else if (table === 'i') written.intents.add(`${taskId} ${third} ${number}`);
  }
  return written;
}

export function stepKey(row: StepRow): string {
  return `${row.lease.taskId} ${row.scope} ${row.kind} ${row.name} ${row.occurrence}`;
}

export function outcomeKey(row: OutcomeRow): string {
  return `${row.lease.taskId} ${row.seq} ${row.dispatch} ${row.kind}`;
}

export function intentKey(row: IntentRow): string {
  return `${row.lease.taskId} ${row.seq} ${row.dispatch}`;
}

function stepValues({ lease, ...row }: StepRow): unknown[] {
  return [
    lease.batchKey,
    lease.taskId,
    row.scope,
    row.kind,
    row.name,
    row.occurrence,
    lease.token,
    lease.workerId,
    lease.token,
    Buffer.from(row.value),
  ];
}

/** What a provider, or a request's body, says about itself may hold a NUL character, which `text` refuses: no reason to lose an outcome. */
function storable(text: string | undefined): string | undefined {
  return text?.replaceAll('\0', '\uFFFD');
}

function outcomeValues({ lease, ...row }: OutcomeRow): unknown[] {
  return [
    lease.batchKey,
    lease.taskId,
    row.seq,
    row.dispatch,
    row.kind,
    row.status,
    storable(row.error),
    row.shown,
    storable(row.providerRequestId),
    storable(row.messageId),
    JSON.stringify(row.responseHeaders),
    row.response,
    row.inputTokens,
    row.outputTokens,
    row.cacheReadTokens,
    row.cacheWrite5mTokens,
    row.cacheWrite1hTokens,
    row.costUsd,
  ];
}

function intentValues({ lease, ...row }: IntentRow): unknown[] {
  return [
    lease.batchKey,
    lease.taskId,
    row.seq,
    row.dispatch,
    row.scope,
    row.requestSha256,
    row.occurrence,
    lease.token,
    lease.workerId,
    lease.slot,
    lease.token,
    row.afterNo,
    row.method,
    row.path,
    storable(row.model),
    storable(row.askedModel),
    row.request,
    row.worstCaseUsd,
    row.tag,
    row.deadlineMs / 1000,
  ];
}
