import type { Pool } from 'pg';
import { patiently } from '../postgres/patiently.ts';
import type { Lease } from './lease.ts';
import type { OutcomeKind, StepKind } from './rows.ts';

/** A result that the agent's code has seen, at its place in the completion order. */
export interface RecordedResult {
  completedNo: number;
  kind: 'answer' | 'failure';
  response: RecordedResponse;
}

export interface RecordedResponse {
  seq: number;
  dispatch: number;
  outcome: OutcomeKind;
  status: number;
  headers: Record<string, string>;
  error: string | undefined;
  /** What it cost, in dollars as an exact decimal; undefined where nothing is known to have been charged. */
  costUsd: string | undefined;
  /** Undefined where it is too large to be read before it is needed: see readBody. */
  body: Buffer | undefined;
}

/** A dispatch without an answer that no other may follow: until a moment, or (undefined) until a bill or a person settles it. */
export interface StandingDoubt {
  dispatch: number;
  waitUntil: Date | undefined;
  /** A person has settled it as charged, and has not ordered to pay again. */
  isSettled: boolean;
}

/** One recorded call of a task, with all its dispatches. */
export interface RecordedCall {
  seq: number;
  scope: string;
  requestSha256: string;
  occurrence: number;
  method: string;
  path: string;
  /** The last result the code had seen when it issued the call. */
  afterNo: number;
  lastDispatch: number;
  /** A dispatch in doubt that no other may follow yet. */
  doubt: StandingDoubt | undefined;
  /** For how long it had been tried without a result that the code has seen when the journal was read, in milliseconds. */
  tryingMs: number;
  results: RecordedResult[];
  /** Which of the code's issues of this call it aborted itself: the first, the second … */
  aborts: Set<number>;
}

export interface RecordedStep {
  scope: string;
  kind: Exclude<StepKind, 'abort'>;
  name: string;
  occurrence: number;
  completedNo: number;
  value: string;
}

export interface RecordedJournal {
  calls: RecordedCall[];
  steps: RecordedStep[];
  /** The highest seq ever given to a call of this task, also to calls that a person ordered to be paid again. */
  lastSeq: number;
  /**
   * Actions, by `reopenedKey`, that a person's retry lets be proposed again although later records are unused. What becomes of one takes the place
   * that its first outcome had in the completion order: what the code went on to ask for is recorded after that. Undefined: it had none.
   */
  reopenedActions: Map<string, number | undefined>;
  /** The place of the last step, or abort of a call, in the completion order. */
  lastStepNo: number;
}

/** Bodies up to this many bytes come with the journal; larger ones are read when their turn comes. */
const INLINE_BODY_BYTES = 262_144;

interface CallRow {
  seq: number;
  dispatch: number;
  scope: string;
  request_sha256: Buffer;
  occurrence: number;
  method: string;
  path: string;
  after_no: number;
  may_follow: boolean;
  wait_until: Date | null;
  is_settled: boolean;
  age_ms: number;
  ignored: boolean;
  kind: OutcomeKind | null;
  status: number | null;
  error: string | null;
  cost_usd: string | null;
  shown: boolean | null;
  answers: boolean | null;
  completed_no: number | null;
  response_headers: Record<string, string> | null;
  response: Buffer | null;
}

interface StepRowRead {
  scope: string;
  kind: StepKind;
  name: string;
  occurrence: number;
  completed_no: number;
  value: Buffer;
}

/**
 * Reads what is recorded of a task, by the primary keys of its batch's partitions. To be called only after the claim has committed: an
 * earlier reader would miss what the previous holder wrote until then (rule R1).
 */
export async function loadJournal(pool: Pool, lease: Lease): Promise<RecordedJournal> {
  const [calls, steps, reopened] = await Promise.all([
    pool.query<CallRow>(
      `SELECT i.seq, i.dispatch, i.scope, i.request_sha256, i.occurrence, i.method, i.path, i.after_no,
              madrugada.may_pay_again(i, b.doubt_policy) AS may_follow,
              CASE WHEN b.doubt_policy = 'pay_again' THEN i.deadline_at + interval '30 seconds' END AS wait_until,
              EXISTS (SELECT FROM madrugada.settlement s
                       WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch) AS is_settled,
              extract(epoch FROM madrugada.now() - i.sent_at)::float8 * 1000 AS age_ms,
              EXISTS (SELECT FROM madrugada.pay_again p WHERE p.task_id = i.task_id AND i.seq BETWEEN p.from_seq AND p.to_seq) AS ignored,
              o.kind, o.status, o.error, o.cost_usd, o.shown, o.answers, o.completed_no, o.response_headers,
              CASE WHEN (o.answers OR o.shown) AND octet_length(o.response) <= $3 THEN o.response END AS response
         FROM madrugada.call_intent i
         JOIN madrugada.batch b ON b.batch_key = i.batch_key
         LEFT JOIN madrugada.call_outcome o
           ON o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
        WHERE i.batch_key = $1 AND i.task_id = $2
        ORDER BY i.seq, i.dispatch, o.completed_no`,
      [lease.batchKey, lease.taskId, INLINE_BODY_BYTES],
    ),
    pool.query<StepRowRead>(
      `SELECT s.scope, s.kind, s.name, s.occurrence, s.completed_no, s.value
         FROM madrugada.step_record s
        WHERE s.batch_key = $1 AND s.task_id = $2
          AND NOT EXISTS (SELECT FROM madrugada.pay_again p
                           WHERE p.task_id = s.task_id AND s.kind NOT IN ('now', 'random') AND s.completed_no > p.from_no AND s.completed_no <= p.to_no)
          AND NOT (s.kind = 'action' AND EXISTS (SELECT FROM madrugada.action_use u
                WHERE u.task_id = s.task_id AND u.step = s.name AND u.ordinal = s.occurrence AND u.retired_at >= s.recorded_at))
        ORDER BY s.completed_no`,
      [lease.batchKey, lease.taskId],
    ),
    pool.query<{ step: string; ordinal: number; place: number | null }>(
      `SELECT u.step, u.ordinal, min(s.completed_no) AS place
         FROM madrugada.action_use u
         LEFT JOIN madrugada.step_record s ON s.batch_key = $1 AND s.task_id = u.task_id AND s.scope = '' AND s.kind = 'action' AND s.name = u.step
           AND s.occurrence = u.ordinal AND s.recorded_at <= u.retired_at
        WHERE u.task_id = $2 AND u.retired_at IS NOT NULL GROUP BY u.step, u.ordinal`,
      [lease.batchKey, lease.taskId],
    ),
  ]);
  const recorded = gather(calls.rows.filter((row) => !row.ignored));
  addAborts(recorded, steps.rows);
  const reopenedActions = new Map(
    reopened.rows.map(({ step, ordinal, place }) => [reopenedKey(step, ordinal), place ?? undefined]),
  );
  const placeOf = ({ name, occurrence }: { name: string; occurrence: number }, kind: StepKind, completedNo: number) =>
    (kind === 'action' ? reopenedActions.get(reopenedKey(name, occurrence)) : undefined) ?? completedNo;
  return {
    calls: [...recorded.values()],
    steps: steps.rows.flatMap(({ kind, value, completed_no, ...row }) =>
      kind === 'abort'
        ? []
        : [{ ...row, kind, completedNo: placeOf(row, kind, completed_no), value: value.toString() }],
    ),
    lastSeq: Math.max(0, ...calls.rows.map((row) => row.seq)),
    reopenedActions,
    lastStepNo: steps.rows.at(-1)?.completed_no ?? 0,
  };
}

export function reopenedKey(step: string, occurrence: number): string {
  return `${step} ${occurrence}`;
}

/** The body of a recorded response that was too large to come with the journal. */
export async function readBody(pool: Pool, lease: Lease, response: RecordedResponse): Promise<Buffer> {
  const { rows } = await patiently(() =>
    pool.query<{ response: Buffer | null }>(
      'SELECT response FROM madrugada.call_outcome WHERE batch_key = $1 AND task_id = $2 AND seq = $3 AND dispatch = $4 AND kind = $5',
      [lease.batchKey, lease.taskId, response.seq, response.dispatch, response.outcome],
    ),
  );
  return rows[0]?.response ?? Buffer.alloc(0);
}

/** The answer of a call, whichever dispatch brought it. */
export async function readAnswer(pool: Pool, lease: Lease, seq: number): Promise<RecordedResponse> {
  const { rows } = await patiently(() =>
    pool.query<{
      dispatch: number;
      kind: OutcomeKind;
      status: number;
      response_headers: Record<string, string>;
      response: Buffer;
      cost_usd: string | null;
    }>(
      'SELECT dispatch, kind, status, response_headers, response, cost_usd FROM madrugada.call_outcome WHERE batch_key = $1 AND task_id = $2 AND seq = $3 AND answers',
      [lease.batchKey, lease.taskId, seq],
    ),
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`call ${seq} of task ${lease.key} has no answer`);
  const { dispatch, kind, status, response_headers, response, cost_usd } = row;
  return {
    seq,
    dispatch,
    outcome: kind,
    status,
    headers: response_headers,
    error: undefined,
    costUsd: cost_usd ?? undefined,
    body: response,
  };
}

function gather(rows: CallRow[]): Map<number, RecordedCall> {
  const calls = new Map<number, RecordedCall>();
  for (const row of rows) {
    const call = calls.get(row.seq) ?? newCall(row);
    calls.set(row.seq, call);
    if (row.dispatch > call.lastDispatch) {
      // a failure that a later dispatch went out without having seen was tried afresh: the code went on from what came then
      call.results = call.results.filter((result) => result.kind === 'answer' || result.completedNo <= row.after_no);
      call.lastDispatch = row.dispatch;
    }
    if (!row.may_follow)
      call.doubt = { dispatch: row.dispatch, waitUntil: row.wait_until ?? undefined, isSettled: row.is_settled };
    call.tryingMs = row.shown ? 0 : call.tryingMs || row.age_ms; // what the code has seen begins a new series
    const result = resultOf(row);
    if (result) call.results.push(result);
  }
  for (const call of calls.values()) {
    // a late answer makes an earlier failure of the same dispatch moot, unless the code had seen it
    call.results.sort((a, b) => a.completedNo - b.completedNo);
    if (call.results.some((result) => result.kind === 'answer')) call.doubt = undefined;
  }
  return calls;
}

function newCall(row: CallRow): RecordedCall {
  const { seq, scope, occurrence, method, path } = row;
  return {
    seq,
    scope,
    requestSha256: row.request_sha256.toString('hex'),
    occurrence,
    method,
    path,
    afterNo: row.after_no,
    lastDispatch: row.dispatch,
    doubt: undefined,
    tryingMs: 0,
    results: [],
    aborts: new Set(),
  };
}

function resultOf(row: CallRow): RecordedResult | undefined {
  if (row.kind === null || row.completed_no === null || !(row.answers || row.shown)) return undefined;
  return {
    completedNo: row.completed_no,
    kind: row.answers ? 'answer' : 'failure',
    response: {
      seq: row.seq,
      dispatch: row.dispatch,
      outcome: row.kind,
      status: row.status ?? 0,
      headers: row.response_headers ?? {},
      error: row.error ?? undefined,
      costUsd: row.cost_usd ?? undefined,
      body: row.response ?? undefined,
    },
  };
}

/** An abort is recorded as a step: its name is the call's seq, its occurrence the issue that was aborted. */
function addAborts(calls: Map<number, RecordedCall>, steps: StepRowRead[]): void {
  for (const step of steps) if (step.kind === 'abort') calls.get(Number(step.name))?.aborts.add(step.occurrence);
}
