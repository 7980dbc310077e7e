import { constants } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** One line of the bill as it stands in the file. There is no unique key: a double charge shows as two lines. */
export type BillLine = {
  readonly provider_request_id: string;
  readonly message_id: string;
  /** The request's `x-madrugada-tag`, or null. */
  readonly tag: string | null;
  /** When the request had arrived whole, ISO 8601 in UTC. */
  readonly received_at: string;
  /** When the answer was produced, ISO 8601 in UTC. */
  readonly at: string;
  readonly model: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** US dollars as an exact decimal. */
  readonly cost_usd: string;
  /** SHA-256 of the raw request body, in hex. */
  readonly request_sha256: string;
};

type Waiting = { readonly text: string; readonly resolve: () => void; readonly reject: (reason: Error) => void };

/** How much of the file's end is searched for the last whole line; far longer than any line. */
const TAIL_BYTES = 1 << 20;

/**
 * The provider's own bill: JSON Lines, append-only, each line on disk before `append` resolves.
 * Writing is grouped: lines that arrive while one fsync is under way go out together with the next.
 */
export class BillFile {
  readonly #file: FileHandle;
  readonly #path: string;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #broken: Error | undefined;

  private constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
  }

  /** Opens or creates the bill at `path`, and its folder. Throws the file system's error if that is impossible. */
  static async open(path: string): Promise<BillFile> {
    const folder = dirname(path);
    await mkdir(folder, { recursive: true });
    const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_APPEND, 0o644);
    await cutTornLine(file);
    await syncFolder(folder);
    return new BillFile(file, path);
  }

  /** Appends one line; resolves once it is durable. After a write has failed, every later line is refused too. */
  append(line: BillLine): Promise<void> {
    if (this.#broken) return Promise.reject(this.#broken);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text: `${JSON.stringify(line)}\n`, resolve, reject });
      this.#writing ??= this.#writeGroups();
    });
  }

  /** Waits for the lines already appended, then closes the file. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  async #writeGroups(): Promise<void> {
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      await this.#writeGroup(group);
    }
    this.#writing = undefined;
  }

  async #writeGroup(group: readonly Waiting[]): Promise<void> {
    try {
      if (this.#broken) throw this.#broken;
      await this.#file.appendFile(group.map((waiting) => waiting.text).join(''));
      await this.#file.sync();
      for (const waiting of group) waiting.resolve();
    } catch (cause) {
      // Half a line may now stand at the end: writing on would glue the next charge to it.
      this.#broken ??= new Error(`the bill ${this.#path} cannot be written; free the disk and start again`, { cause });
      for (const waiting of group) waiting.reject(this.#broken);
    }
  }
}

/** A provider killed while writing leaves half a line, which was never durable and whose answer never left: cut it. */
async function cutTornLine(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  const length = Math.min(size, TAIL_BYTES);
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
  const wholeLines = buffer.lastIndexOf('\n') + 1;
  if (wholeLines < length) await file.truncate(size - length + wholeLines);
}

/** Without this a freshly created file may be missing after a power cut although its content was synced. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
