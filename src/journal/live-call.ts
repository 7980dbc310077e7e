import type { Tokens } from '../provider/pace.ts';
import type { Brake } from './brake.ts';
import type { Asking } from './fall-back.ts';
import type { Issue } from './issue.ts';
import type { RecordedCall, RecordedResponse } from './load-journal.ts';
import type { JournaledRequest, RequestIdentity } from './request.ts';

/** A call of the running attempt: recorded, or new, or both (recorded without an answer). */
export interface LiveCall {
  scope: string;
  identity: RequestIdentity;
  occurrence: number;
  /** As the code made it. */
  request: JournaledRequest;
  /** What goes out in its stead, to the batch's fall-back model; undefined: it has not fallen back. */
  fallenBack: Asking | undefined;
  /** Of its run: looked at just before anything is sent. */
  brake: Brake;
  /** Of its run: tells that it is not stuck, to be called at whatever happens to the call. */
  onActivity: () => void;
  recorded: RecordedCall | undefined;
  /** Given when the call first goes out; a recorded call has it already. */
  seq: number | undefined;
  lastDispatch: number;
  /** What the turn of its last dispatch took of the provider's limits. */
  taken: Tokens;
  /** Its last dispatch had a place in the rate that the provider has announced. */
  isCounted: boolean;
  /** Recorded results that the code has already asked for. */
  consumed: number;
  issues: number;
  /** The place of a recorded failure in whose stead the call is about to go out. */
  triesAfresh: number | undefined;
  /** The issue the code is waiting on; an ended one stays until the next. */
  issue: Issue;
  /** True from going out until its result is in. */
  isOut: boolean;
  /** The answer, where it came while no issue was open. */
  answer: RecordedResponse | undefined;
  /** The code has got an answer, whole. */
  isAnswered: boolean;
}

/** A call on its way out: it has its number. */
export type OutgoingCall = LiveCall & { seq: number };
