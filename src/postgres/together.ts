import { DatabaseError } from 'pg';

interface Waiting<Request, Result> {
  request: Request;
  done: (result: Result) => void;
  failed: (error: unknown) => void;
}

/** Does several requests in one statement; its results are in their order. Undefined: left out, because somebody has a row that it needs. */
type Run<Request, Result> = (requests: Request[], waits: boolean) => Promise<(Result | undefined)[]>;

/**
 * Does together what a process is asked for while the statement before is under way: one commit for all of them. For statements that hold a
 * row which all want until the commit is on the disk: one after the other is all that the database could do with them apart.
 */
export class Together<Request, Result> {
  readonly #run: Run<Request, Result>;
  #queue: Waiting<Request, Result>[] = [];
  #isWorking = false;

  /** With `waits`, `run` leaves none out: it waits for whoever has the row. */
  constructor(run: Run<Request, Result>) {
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

  /** One that the database will not do must not take the others along, and one that waits must not hold them up: each of those goes alone. */
  async #answer(group: Waiting<Request, Result>[]): Promise<void> {
    try {
      const results = await this.#run(
        group.map(({ request }) => request),
        false,
      );
      for (const [index, one] of group.entries()) {
        const result = results[index];
        if (result === undefined) void this.#alone(one);
        else one.done(result);
      }
    } catch (error) {
      if (group.length > 1 && error instanceof DatabaseError) for (const one of group) void this.#alone(one);
      else for (const { failed } of group) failed(error);
    }
  }

  async #alone({ request, done, failed }: Waiting<Request, Result>): Promise<void> {
    try {
      const [result] = await this.#run([request], true);
      if (result === undefined) throw new Error('the database left out a request that was to wait');
      done(result);
    } catch (error) {
      failed(error);
    }
  }
}
