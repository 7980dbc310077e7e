import type { Lease } from '../../src/journal/lease.ts';
import { type BatchOptions, loadTestBatch, type TestWorker } from './attempts.ts';
import type { TestDatabase } from './database.ts';

/** What came of a dispatch. `usd` is null for a model without a price. */
export interface MadeOutcome {
  kind: 'charged' | 'recovered' | 'refused' | 'not_sent' | 'unknown';
  usd?: string | null;
  requestId?: string;
}

/** A line of a bill: whose it is, by whatever it says of itself. */
export interface MadeLine {
  tag?: string;
  requestId?: string;
  usd: string;
}

/** A batch whose journal and bill are written row by row, to know every figure beforehand. Its first task is running. */
export class HandMadeNight {
  readonly batch: string;
  readonly #db: TestDatabase;
  readonly #lease: Lease;
  /** What the dispatches made from now on cost at most; null: their model has no price. */
  worstCaseUsd: string | null = null;
  #bills = 0;

  private constructor(db: TestDatabase, batch: string, lease: Lease) {
    this.#db = db;
    this.batch = batch;
    this.#lease = lease;
  }

  static async begin(db: TestDatabase, worker: TestWorker, options: BatchOptions = {}): Promise<HandMadeNight> {
    const batch = await loadTestBatch(db, options);
    return new HandMadeNight(db, batch, (await worker.claim(batch)).lease);
  }

  /** The key of its first task. */
  get task(): string {
    return this.#lease.key;
  }

  tag(seq: number, dispatch = 1): string {
    return `${this.batch}/${seq}.${dispatch}`;
  }

  /** A dispatch with its outcomes; without any it is in doubt. */
  async dispatch(seq: number, dispatch: number, ...outcomes: MadeOutcome[]): Promise<void> {
    const { taskId, workerId, slot, token } = this.#lease;
    const { rowCount } = await this.#db.pool.query(
      `INSERT INTO madrugada.call_intent (batch_key, task_id, seq, dispatch, scope, request_sha256, occurrence, attempt, worker_id, slot, lease_token,
         after_no, method, path, request, tag, deadline_at, worst_case_usd)
       VALUES ($1, $2, $3, $4, '', sha256(''), $3, $7, $5, $6, $7, 0, 'POST', '/v1/messages', '', $8, madrugada.now() + interval '1 minute', $9)`,
      [this.batch, taskId, seq, dispatch, workerId, slot, token, this.tag(seq, dispatch), this.worstCaseUsd],
    );
    if (rowCount !== 1) throw new Error(`dispatch ${seq}.${dispatch} was refused by the fence`);
    for (const outcome of outcomes) await this.outcome(seq, dispatch, outcome);
  }

  /** An outcome that comes to a dispatch later. */
  async outcome(seq: number, dispatch: number, { kind, usd = null, requestId }: MadeOutcome): Promise<void> {
    await this.#db.pool.query(
      `INSERT INTO madrugada.call_outcome (batch_key, task_id, seq, dispatch, kind, cost_usd, provider_request_id, answers)
       VALUES ($1, $2, $3, $4, $5, $6, $7, false)`,
      [this.batch, this.#lease.taskId, seq, dispatch, kind, usd, requestId],
    );
  }

  /** A bill with these lines, beside what was imported before. */
  async bill(...lines: MadeLine[]): Promise<void> {
    this.#bills += 1;
    const { rows } = await this.#db.pool.query<{ id: number }>(
      `INSERT INTO madrugada.bill (batch_key, source, format, sha256, byte_count, line_count) VALUES ($1, 'hand', 'hand', $2, 1, $3) RETURNING id`,
      [this.batch, String(this.#bills), lines.length],
    );
    for (const [index, { tag, requestId, usd }] of lines.entries())
      await this.#db.pool.query(
        `INSERT INTO madrugada.bill_line (bill_id, line_no, tag, provider_request_id, cost_usd, raw) VALUES ($1, $2, $3, $4, $5, '')`,
        [rows[0]?.id, index + 1, tag, requestId, usd],
      );
  }

  /** The running task ends with an answer. */
  async complete(): Promise<void> {
    const { taskId, workerId, token } = this.#lease;
    await this.#db.pool.query(`SELECT madrugada.complete_task($1, $2, $3, 'true', 0)`, [taskId, workerId, token]);
  }
}
