import type Big from 'big.js';

/**
 * Why an attempt cannot go on, found by the journal rather than by the agent's code: `replay` abandons the run to start it over,
 * `broken` is a defect of ours or of the database's.
 */
export type Verdict =
  | { kind: 'lost'; message: string }
  | { kind: 'stopped'; message: string }
  | { kind: 'released'; message: string }
  | {
      kind: 'parked';
      message: string;
      waitingFor: 'doubt' | 'refusal' | 'settlement' | 'approval' | 'action';
      until: Date | undefined;
    }
  | { kind: 'parked'; message: string; waitingFor: 'budget'; until: undefined; needs: Big }
  /** A call that may never be sent as it is: no known price, no bound, or more than the task may spend. */
  | { kind: 'refused'; message: string }
  /** Its failure was decided in an earlier attempt, and its actions are undone now. */
  | { kind: 'undone'; failure: { kind: string; message: string } }
  | { kind: 'diverged'; message: string; seq: number | undefined; atRest: 'settled' | 'limit' }
  | { kind: 'replay' }
  | { kind: 'broken'; error: unknown };
