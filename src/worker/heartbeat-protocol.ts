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

/** A slot has got a lease, or (undefined) has none any more. */
export interface HeldLease {
  slotIndex: number;
  lease: { taskId: number; token: number } | undefined;
}

/** Tasks whose lease, the database says, is no longer the worker's. */
export interface LostLeases {
  lostTasks: number[];
}
