/**
 * What a run held in memory is gone through no fault of its own, such as a sandbox whose thread another task has brought down. Thrown out of
 * `run`, it starts the run over from the journal within the same attempt: recorded calls are replayed for free.
 */
export class RunLost extends Error {
  override readonly name = 'RunLost';
}
