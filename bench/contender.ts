/** Where a contender works. */
export interface Place {
  /** An empty database of its own. */
  databaseUrl: string;
  providerUrl: string;
}

/** One way of running tasks of `CALLS_PER_TASK` journaled calls. */
export interface Contender {
  name: string;
  /** What has to be there before a round and is not measured. */
  prepare?(slots: number, tasks: number): Promise<void>;
  /** Runs `tasks` tasks in each of `slots` concurrent slots. */
  run(slots: number, tasks: number): Promise<void>;
  close(): Promise<void>;
}

export const CALLS_PER_TASK = 25;

/** Runs `work` in `slots` loops at once, `tasks` times in each; `name` is different in every call of one process. */
export async function inSlots(slots: number, tasks: number, work: (name: string) => Promise<unknown>): Promise<void> {
  rounds += 1;
  const round = rounds;
  await Promise.all(
    Array.from({ length: slots }, async (_, slot) => {
      for (let task = 0; task < tasks; task += 1) await work(`task-${round}-${slot}-${task}`);
    }),
  );
}

let rounds = 0;
