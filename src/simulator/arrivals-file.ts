import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';

/** One request for a message as it arrived, whether or not it was answered. */
export type Arrival = {
  /** When it had arrived whole, ISO 8601 in UTC. */
  readonly received_at: string;
  /** The request's `x-madrugada-tag`, or null. */
  readonly tag: string | null;
  /** Empty where the request names none. */
  readonly model: string;
  /** `answered`, `over the limit`, `malformed`, `revoked`, or the name of the fault that struck it. */
  readonly fate: string;
};

/** Every arrival, JSON Lines, appended to. The bill has only what was charged; a rate is kept or broken by what arrives. */
export class ArrivalsFile {
  readonly #file: WriteStream;

  constructor(path: string) {
    this.#file = createWriteStream(path, { flags: 'a' });
    this.#file.on('error', (error) => process.stderr.write(`simulated provider: arrivals: ${error.message}\n`));
  }

  append(arrival: Arrival): void {
    this.#file.write(`${JSON.stringify(arrival)}\n`);
  }

  /** Waits until everything is in the file. */
  async close(): Promise<void> {
    this.#file.end();
    await finished(this.#file).catch(() => undefined); // said when it happened
  }
}
