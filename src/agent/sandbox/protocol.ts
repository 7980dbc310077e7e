/** The texts of a context as they cross into a sandbox thread: one shared buffer, decoded there when somebody looks at them. */
export interface PackedContext {
  /** SHA-256 of everything below: a thread keeps the contexts it has seen. */
  digest: string;
  /** True where `context` is one string, false where it is a list of documents. */
  isText: boolean;
  names: string[];
  /** UTF-8. */
  bytes: SharedArrayBuffer;
  /** Where each document ends in `bytes`. */
  ends: number[];
}

/** What is fixed when a sandbox is opened. */
export interface SandboxSettings {
  /** Hex digest from which `Math.random` is seeded. */
  seed: string;
  /** What the clock shows for ever, in milliseconds since 1970. */
  nowMs: number;
  /** Characters of one turn's output that are shown; the middle of a longer one is cut. */
  maxOutputChars: number;
  /** Whether `recurse` is offered. */
  canRecurse: boolean;
}

/** A call out of the sandbox: a prompt for `llm`; for `recurse`, question and slice as JSON. */
export type CallKind = 'llm' | 'recurse';

export interface CallOut {
  /** Counts the calls of its sandbox, from 1. */
  call: number;
  kind: CallKind;
  payload: string;
}

/** How a turn ended. */
export interface TurnReport {
  /** What was printed, as the root model may see it. */
  output: string;
  /** Why the code did not come to its end, in words; undefined when it did. */
  failure: string | undefined;
  /** JSON of the last `answer(…)`, if there was one. */
  answer: string | undefined;
  /** Digest of the globals, the output and the failure: the same whenever the same turns are run. */
  state: string;
}

export type ToThread =
  | { type: 'open'; sandbox: number; settings: SandboxSettings; context: PackedContext }
  | { type: 'run'; sandbox: number; turn: number; blocks: string[] }
  | { type: 'settle'; sandbox: number; call: number; ok: boolean; value: string }
  | { type: 'close'; sandbox: number };

export type FromThread =
  | { type: 'calls'; sandbox: number; calls: CallOut[] }
  | { type: 'ended'; sandbox: number; report: TurnReport }
  | { type: 'broken'; sandbox: number; message: string };

/** Words of the memory that a thread shares with its pool. */
export const RUNNING_SANDBOX = 0;
export const SLICE = 1;

export interface ThreadData {
  words: Int32Array;
}
