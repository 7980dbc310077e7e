import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import releaseSync from '@jitl/quickjs-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSDeferredPromise,
  type QuickJSHandle,
  type QuickJSRuntime,
  type QuickJSSyncVariant,
} from 'quickjs-emscripten-core';
import { MemoryImage } from './memory-image.ts';
import { prelude } from './prelude.ts';

const PAGE_BYTES = 65_536;
/** What a guest may use beside its context, in WASM pages: 64 MB. */
const GUEST_PAGES = 1024;
/** A character of the context may be held twice by a guest, in two bytes each. */
const BYTES_PER_CHARACTER = 4;
/** 512 KB gave an error of the host's the first time and one of the guest's the second; 256 KB with a large host stack never did. */
const STACK_BYTES = 256 * 1024;
/** Contexts whose room is the same up to this many pages share instances: 4 MB. */
const CONTEXT_STEP_PAGES = 64;
/** Instances that wait in a thread to be used again, and what a guest may have written of one for it to be kept: its pages stay in memory. */
const KEPT_INSTANCES = 2;
const KEPT_BYTES = 16 * 1024 * 1024;
const PROBE_STEP_BYTES = 1024 * 1024;
const PROBE_BYTES = 4096;
/** Room that must be left when the library is called, and what is kept for when it is not. */
const ROOM_BYTES = 65_536;
const RESERVE_BYTES = 1024 * 1024;

/** The guest, or the host on its behalf, has used up the memory of its sandbox. */
export class OutOfMemory extends Error {
  override readonly name = 'OutOfMemory';
}

/** As much of the global as is used here; neither TypeScript's own libraries for servers nor Node's types have it. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<object>;
  Memory: new (pages: { initial: number; maximum: number }) => { readonly buffer: ArrayBuffer };
};

/** The package's types describe its CommonJS build, in which the variant lies one level deeper. */
const RELEASE_SYNC = releaseSync as unknown as QuickJSSyncVariant;

let compiled: Promise<object> | undefined;

/** How the host takes memory of an instance. */
interface Heap {
  _malloc(bytes: number): number;
  _free(address: number): void;
}

/** What is called back from inside of an instance. */
export interface Callbacks {
  /** True stops the guest. */
  shouldStop(): boolean;
  write(head: string, skipped: number, tail: string): void;
  text(index: number): string;
  search(words: string, limit: number): string;
  fold(text: string): string;
  answer(json: string): void;
  call(kind: string, payload: string): QuickJSDeferredPromise;
}

/**
 * One QuickJS in a memory of its own of 64 MB and the room for its context. (QuickJS' own memory limit does not hold in WASM: it let a guest
 * take 2.1 GB.) The memory has its full size from the start, which costs nothing until it is written to: growing would detach views that the
 * library keeps over a call. An instance is used by one sandbox at a time. Afterwards its memory is set back, byte for byte, to what it was
 * when the prelude had been compiled: ten times cheaper than a new instance, and no garbage for V8 to collect.
 */
export class QuickJs {
  readonly context: QuickJSContext;
  readonly runtime: QuickJSRuntime;
  /** The compiled prelude, and the object of host functions that it takes. */
  readonly prelude: QuickJSHandle;
  readonly host: QuickJSHandle;
  readonly #json: Record<'parse' | 'stringify', QuickJSHandle>;
  readonly #heap: Heap;
  readonly #memory: { readonly buffer: ArrayBuffer };
  readonly #pristine: MemoryImage;
  readonly #maxPages: number;
  #callbacks: Callbacks | undefined;
  /** Address of the reserve; 0 when it is lent. */
  #reserve = 0;

  /** Takes an instance with room for `contextChars` characters, its memory as new. */
  static async take(contextChars: number): Promise<QuickJs> {
    const maxPages = pagesFor(contextChars);
    const index = kept.findIndex((instance) => instance.#maxPages === maxPages);
    const [instance] = index < 0 ? [] : kept.splice(index, 1);
    return instance ?? QuickJs.#create(maxPages);
  }

  static async #create(maxPages: number): Promise<QuickJs> {
    compiled ??= compile();
    const memory = new WebAssembly.Memory({ initial: maxPages, maximum: maxPages });
    const variant = newVariant(RELEASE_SYNC, { wasmModule: await compiled, wasmMemory: memory });
    let heap: Heap | undefined;
    const quickJs = await newQuickJSWASMModuleFromVariant(refusingNull(variant, (module) => (heap = module)));
    if (heap === undefined) throw new Error('QuickJS was loaded without its module');
    return new QuickJs(quickJs.newRuntime(), heap, memory, maxPages);
  }

  private constructor(runtime: QuickJSRuntime, heap: Heap, memory: { readonly buffer: ArrayBuffer }, maxPages: number) {
    this.runtime = runtime;
    this.#heap = heap;
    this.#memory = memory;
    this.#maxPages = maxPages;
    runtime.setMaxStackSize(STACK_BYTES);
    runtime.setInterruptHandler(() => this.#callbacks?.shouldStop() ?? false);
    this.context = runtime.newContext();
    this.#json = this.context.getProp(this.context.global, 'JSON').consume((json) => ({
      parse: this.context.getProp(json, 'parse'),
      stringify: this.context.getProp(json, 'stringify'),
    }));
    this.host = this.#hostObject();
    this.prelude = this.context.unwrapResult(this.context.evalCode(`(${prelude.toString()})`, 'prelude.js'));
    this.#pristine = new MemoryImage(memory.buffer);
  }

  /**
   * Makes sure that there is room for what the library and QuickJS need themselves, such as a promise or an error: without any, errors about
   * errors may go on for ever. A guest that has used up its memory is lent the reserve for the rest of its turn; when that is gone too, OutOfMemory is thrown.
   */
  requireRoom(): void {
    try {
      this.#heap._free(this.#heap._malloc(ROOM_BYTES));
    } catch (error) {
      if (this.#reserve === 0) throw error;
      this.#heap._free(this.#reserve);
      this.#reserve = 0;
    }
  }

  /** From now on `callbacks` answer what the guest asks. */
  serve(callbacks: Callbacks): void {
    this.#callbacks = callbacks;
    this.#reserve = this.#heap._malloc(RESERVE_BYTES);
  }

  /** Between two turns the reserve is taken back, as much of it as there is. Throws OutOfMemory when there is hardly any. */
  takeBackReserve(): void {
    if (this.#reserve !== 0) return;
    try {
      this.#reserve = this.#heap._malloc(RESERVE_BYTES);
    } catch {
      this.#reserve = this.#heap._malloc(ROOM_BYTES);
    }
  }

  /** Makes the instance fit for another sandbox. Not for one that has thrown out of WASM: its stack is then where nobody knows. */
  giveBack(): void {
    this.#callbacks = undefined;
    if (kept.length >= KEPT_INSTANCES || hasUsedMuch(this.#memory.buffer)) return;
    this.#pristine.restore(this.#memory.buffer);
    kept.push(this);
  }

  /** A text for the guest. The library takes a NUL character for the end of it, so one that has any goes in as JSON. */
  newText(text: string): QuickJSHandle {
    const { context } = this;
    if (!text.includes('\0')) return context.newString(text);
    const json = context.newString(JSON.stringify(text));
    return json.consume((json) =>
      context.unwrapResult(context.callFunction(this.#json.parse, context.undefined, json)),
    );
  }

  /** A text of the guest, whole; halves of characters beyond 16 bits, which no request may hold, are replaced. */
  textOf(handle: QuickJSHandle): string {
    const { context } = this;
    const text = context.getString(handle);
    const length = context.getProp(handle, 'length').consume((length) => context.getNumber(length));
    if (text.length === length) return text;
    const json = context.unwrapResult(context.callFunction(this.#json.stringify, context.undefined, handle));
    return (JSON.parse(json.consume((json) => context.getString(json))) as string).toWellFormed();
  }

  #hostObject(): QuickJSHandle {
    const { context } = this;
    const object = context.newObject();
    const define = (name: string, implement: (to: Callbacks, values: QuickJSHandle[]) => QuickJSHandle | undefined) =>
      context
        .newFunction(name, (...values) => {
          this.requireRoom();
          return (this.#callbacks && implement(this.#callbacks, values)) ?? context.undefined;
        })
        .consume((f) => context.setProp(object, name, f));
    const text = (handle: QuickJSHandle | undefined) => (handle ? this.textOf(handle) : '');
    const number = (handle: QuickJSHandle | undefined) => (handle ? context.getNumber(handle) : 0);
    define('write', (to, [head, skipped, tail]) => void to.write(text(head), number(skipped), text(tail)));
    define('answer', (to, [json]) => void to.answer(text(json)));
    define('text', (to, [index]) => this.newText(to.text(number(index))));
    define('fold', (to, [unfolded]) => this.newText(to.fold(text(unfolded))));
    define('search', (to, [words, limit]) => context.newString(to.search(text(words), number(limit))));
    define('call', (to, [kind, payload]) => to.call(text(kind), text(payload)).handle.dup());
    return object;
  }
}

const kept: QuickJs[] = [];

function pagesFor(contextChars: number): number {
  const contextPages = Math.ceil((contextChars * BYTES_PER_CHARACTER) / PAGE_BYTES);
  return GUEST_PAGES + Math.ceil(contextPages / CONTEXT_STEP_PAGES) * CONTEXT_STEP_PAGES;
}

/** Looks at a few pages: what has allocated this much has left something in one of them. */
function hasUsedMuch(memory: ArrayBuffer): boolean {
  const zeros = Buffer.alloc(PROBE_BYTES);
  for (let at = KEPT_BYTES; at < memory.byteLength; at += PROBE_STEP_BYTES)
    if (!Buffer.from(memory, at, PROBE_BYTES).equals(zeros)) return true;
  return false;
}

async function compile(): Promise<object> {
  const file = fileURLToPath(import.meta.resolve('@jitl/quickjs-wasmfile-release-sync/wasm'));
  return WebAssembly.compile(await readFile(file));
}

/** Where memory is used up, the library would write a string to address 0; this makes it throw instead. */
function refusingNull(variant: QuickJSSyncVariant, onLoad: (heap: Heap) => void): QuickJSSyncVariant {
  return {
    ...variant,
    async importModuleLoader() {
      const imported = await variant.importModuleLoader();
      const load = unwrapped(imported);
      return async (options) => {
        const module = await load(options);
        const allocate = module._malloc;
        module._malloc = (size: number) => {
          const address = allocate(size);
          if (address === 0) throw new OutOfMemory('the memory of the sandbox is used up');
          return address;
        };
        onLoad(module);
        return module;
      };
    },
  };
}

/** An import of the loader from an ES module, or from a CommonJS one in one of two disguises. */
function unwrapped<Loader extends (...options: never[]) => unknown>(
  imported: Loader | { default: Loader | { default: Loader } },
): Loader {
  if (typeof imported === 'function') return imported;
  return typeof imported.default === 'function' ? imported.default : imported.default.default;
}
