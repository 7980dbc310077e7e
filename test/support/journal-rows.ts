import { createHash } from 'node:crypto';
import type { Lease } from '../../src/journal/lease.ts';
import type { IntentRow, OutcomeRow, StepRow } from '../../src/journal/rows.ts';

/** An intent of call `seq`, for tests that speak to the writer itself. */
export function intentRow(lease: Lease, seq: number, differing: Partial<IntentRow> = {}): IntentRow {
  return {
    lease,
    seq,
    dispatch: 1,
    scope: '',
    requestSha256: createHash('sha256').update(String(seq)).digest(),
    occurrence: 1,
    afterNo: 0,
    method: 'POST',
    path: '/v1/messages',
    model: 'claude-haiku-4-5',
    askedModel: undefined,
    request: Buffer.from('{}'),
    worstCaseUsd: '0.01',
    tag: `tag-${lease.taskId}-${seq}`,
    deadlineMs: 600_000,
    ...differing,
  };
}

/** A charged outcome of call `seq`. */
export function outcomeRow(lease: Lease, seq: number, differing: Partial<OutcomeRow> = {}): OutcomeRow {
  return {
    lease,
    seq,
    dispatch: 1,
    kind: 'charged',
    status: 200,
    error: undefined,
    shown: false,
    providerRequestId: `req-${seq}`,
    messageId: `msg-${seq}`,
    responseHeaders: {},
    response: Buffer.from('{}'),
    inputTokens: 10,
    outputTokens: 20,
    cacheReadTokens: 0,
    cacheWrite5mTokens: 0,
    cacheWrite1hTokens: 0,
    costUsd: '0.00011',
    ...differing,
  };
}

/** The value of a step. */
export function stepRow(lease: Lease, name: string, differing: Partial<StepRow> = {}): StepRow {
  return { lease, scope: '', kind: 'step', name, occurrence: 1, value: '1', ...differing };
}
