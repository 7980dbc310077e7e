/** What a worker tells its heartbeat thread at its start. */
export interface HeartbeatData {
  url: string;
  workerId: number;
  /** Word 0 counts the turns of the main thread's event loop, word 1 + n the progress of slot n. */
  progress: SharedArrayBuffer;
  intervalMs: number;
  /** An event loop that has not turned for so long is hung: its leases are left to run out. */
  hungMs: number;
  /** A slot without a call, step or delivery for so long is stuck: its lease is left to run out. */
  stuckMs: number;
}

/** A task under one lease: another attempt on it has another token. */
export interface HeldTask {
  taskId: number;
  token: number;
}

/** A slot has got a lease, or (undefined) has none any more. */
export interface HeldLease {
  slotIndex: number;
  lease: HeldTask | undefined;
}

/** Leases that, the database says, are no longer the worker's. */
export interface LostLeases {
  lost: HeldTask[];
}
