/** What an attempt needs to know of its lease to write to the journal. The database checks every part of it (rule R1). */
export interface Lease {
  batchKey: string;
  taskId: number;
  /** The task's key, `batch:item:version`. */
  key: string;
  slot: string;
  workerId: number;
  /** Also the number of the attempt. */
  token: number;
}
