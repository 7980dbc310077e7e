import type { Lease } from './lease.ts';

/** How a dispatch ended; `unknown` settles nothing: the dispatch stays in doubt. */
export type OutcomeKind = 'charged' | 'refused' | 'not_sent' | 'unknown' | 'recovered';

export type StepKind = 'step' | 'now' | 'random' | 'sleep' | 'timeout' | 'checkpoint' | 'action' | 'abort';

/** One row of `call_intent`, to be committed before anything is sent. */
export interface IntentRow {
  lease: Lease;
  seq: number;
  dispatch: number;
  scope: string;
  requestSha256: Buffer;
  occurrence: number;
  afterNo: number;
  method: string;
  path: string;
  /** As it is sent; where that is to the fall-back model, `askedModel` is the one that the code named. */
  model: string | undefined;
  askedModel: string | undefined;
  request: Uint8Array;
  /** What it costs at most: the hold taken for it. Exact decimal. */
  worstCaseUsd: string;
  tag: string;
  /** Milliseconds the sender still allows this dispatch, counted from now. */
  deadlineMs: number;
}

/** One row of `call_outcome`. */
export interface OutcomeRow {
  lease: Lease;
  seq: number;
  dispatch: number;
  kind: OutcomeKind;
  status: number | undefined;
  error: string | undefined;
  /** A failure that the agent's code gets to see. */
  shown: boolean;
  providerRequestId: string | undefined;
  messageId: string | undefined;
  responseHeaders: Record<string, string>;
  response: Uint8Array | undefined;
  inputTokens: number | undefined;
  outputTokens: number | undefined;
  cacheReadTokens: number | undefined;
  cacheWrite5mTokens: number | undefined;
  cacheWrite1hTokens: number | undefined;
  /** Exact decimal; undefined where the model has no known price. */
  costUsd: string | undefined;
}

/** One row of `step_record`; `value` is JSON text. */
export interface StepRow {
  lease: Lease;
  scope: string;
  kind: StepKind;
  name: string;
  occurrence: number;
  value: string;
}
