import { DatabaseError } from 'pg';

interface Waiting<Request, Result> {
  request: Request;
  done: (result: Result) => void;
  failed: (error: unknown) => void;
}

/**
 * Does together what a process is asked for while the statement before is under way: one commit for all of them. For statements that hold a
 * row which all want until the commit is on the disk: one after the other is all that the database could do with them apart.
 */
export class Together<Request, Result> {
  readonly #run: (requests: Request[]) => Promise<Result[]>;
  #queue: Waiting<Request, Result>[] = [];
  #isWorking = false;

  /** `run` does several in one statement; its results are in the order of the requests. */
  constructor(run: (requests: Request[]) => Promise<Result[]>) {
    this.#run = run;
  }

  /** Waits for its turn, and for the commit. Rejects with the database's error if it will not do this one. */
  do(request: Request): Promise<Result> {
    return new Promise((done, failed) => {
      this.#queue.push({ request, done, failed });
      if (!this.#isWorking) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#queue.length > 0) {
      await null; // what slots ask for in the same turn shares a statement
      await this.#answer(this.#queue.splice(0));
    }
    this.#isWorking = false;
  }

  /** One that the database will not do must not take the others along: after such a failure each goes alone. */
  async #answer(group: Waiting<Request, Result>[]): Promise<void> {
    try {
      const results = await this.#run(group.map(({ request }) => request));
      for (const [index, { done }] of group.entries()) done(results[index] as Result);
    } catch (error) {
      if (group.length > 1 && error instanceof DatabaseError) for (const one of group) await this.#answer([one]);
      else for (const { failed } of group) failed(error);
    }
  }
}
