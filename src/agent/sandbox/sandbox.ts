import { messageOf } from '../../errors.ts';
import { RunLost } from '../run-lost.ts';
import type { CallKind, CallOut, FromThread, TurnReport } from './protocol.ts';
import type { SandboxThread } from './sandbox-thread-handle.ts';

/** The code has brought its sandbox down: memory, or time where no step is counted. Running it again would do the same. */
export class SandboxBroken extends Error {
  override readonly name = 'SandboxBroken';
}

/** One sandbox, from outside: a REPL whose state lasts until it is closed. */
export class Sandbox {
  readonly id: number;
  readonly #thread: SandboxThread;
  readonly #onCall: (kind: CallKind, payload: string) => Promise<string>;
  #running: PromiseWithResolvers<TurnReport> | undefined;
  #end: Error | undefined;

  constructor(id: number, thread: SandboxThread, onCall: (kind: CallKind, payload: string) => Promise<string>) {
    this.id = id;
    this.#thread = thread;
    this.#onCall = onCall;
  }

  /**
   * Runs the blocks of one turn. Rejects with SandboxBroken when the code has brought its sandbox down, with RunLost when something else has;
   * everything less is in the report.
   */
  run(turn: number, blocks: string[]): Promise<TurnReport> {
    if (this.#end) return Promise.reject(this.#end);
    this.#running = Promise.withResolvers<TurnReport>();
    this.#thread.post({ type: 'run', sandbox: this.id, turn, blocks });
    return this.#running.promise;
  }

  /** Lets go of it; a turn under way never ends. */
  close(): void {
    this.#thread.remove(this);
  }

  /** What its thread has to say of it. */
  receive(message: FromThread): void {
    if (message.type === 'calls') for (const call of message.calls) void this.#answer(call);
    else if (message.type === 'ended') this.#running?.resolve(message.report);
    else this.#fail(new SandboxBroken(message.message));
  }

  /** Its thread was brought down by another sandbox. */
  lose(): void {
    this.#fail(new RunLost('the sandbox was lost with its thread'));
  }

  #fail(error: Error): void {
    this.#end = error;
    this.#running?.reject(error);
  }

  async #answer({ call, kind, payload }: CallOut): Promise<void> {
    try {
      const value = await this.#onCall(kind, payload);
      this.#thread.post({ type: 'settle', sandbox: this.id, call, ok: true, value });
    } catch (error) {
      this.#thread.post({ type: 'settle', sandbox: this.id, call, ok: false, value: messageOf(error) });
    }
  }
}
