import { SingleBar } from 'cli-progress';
import type { NightAccount } from '../worker/supervisor.ts';

const LINE_EVERY_MS = 10_000;
const BAR =
  '{bar} {value}/{total} tasks | {calls} calls ({replayed} replayed) | US$ {usd} | {failed} failed | {left} left';

/** Shows how a night goes: a bar on a terminal, a plain line now and then elsewhere. Writes to stderr; stdout belongs to results. */
export class NightProgress {
  readonly #startedAt = Date.now();
  readonly #bar: SingleBar | undefined;
  #doneAtStart: number | undefined;
  #lastLineAt = 0;

  constructor() {
    if (process.stderr.isTTY)
      this.#bar = new SingleBar({ format: BAR, stream: process.stderr, hideCursor: true, clearOnComplete: true });
  }

  show(account: NightAccount): void {
    const done = account.completed + account.failed;
    this.#doneAtStart ??= done;
    const figures = {
      calls: account.calls,
      replayed: account.replayed,
      usd: account.usd.toFixed(2),
      failed: account.failed,
      left: this.#timeLeft(done - this.#doneAtStart, account.total - done),
    };
    if (this.#bar) {
      if (!this.#bar.isActive) this.#bar.start(account.total, done, figures);
      this.#bar.update(done, figures);
    } else if (Date.now() - this.#lastLineAt >= LINE_EVERY_MS) {
      this.#lastLineAt = Date.now();
      const { calls, replayed, usd, failed, left } = figures;
      this.note(
        `${done}/${account.total} tasks, ${calls} calls (${replayed} replayed), US$ ${usd}, ${failed} failed, ${left} left`,
      );
    }
  }

  /** A line of its own, above the bar. */
  note(line: string): void {
    if (this.#bar?.isActive) process.stderr.write(`\r\u001b[K${line}\n`);
    else process.stderr.write(`${line}\n`);
  }

  stop(): void {
    this.#bar?.stop();
  }

  #timeLeft(doneHere: number, remaining: number): string {
    if (doneHere === 0) return 'unknown time';
    const seconds = Math.ceil(((Date.now() - this.#startedAt) / doneHere / 1000) * remaining);
    return seconds < 90 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
  }
}
