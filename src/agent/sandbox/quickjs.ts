import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import releaseSync from '@jitl/quickjs-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSSyncVariant,
  type QuickJSWASMModule,
} from 'quickjs-emscripten-core';

const PAGE_BYTES = 65_536;
/** What a guest may use beside its context, in WASM pages: 64 MB. */
const GUEST_PAGES = 1024;
/** A character of the context may be held twice by a guest, in two bytes each. */
const BYTES_PER_CHARACTER = 4;

/** The guest, or the host on its behalf, has used up the memory of its sandbox. */
export class OutOfMemory extends Error {
  override readonly name = 'OutOfMemory';
}

/** As much of the global as is used here; neither TypeScript's own libraries for servers nor Node's types have it. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<object>;
  Memory: new (pages: { initial: number; maximum: number }) => object;
};

/** The package's types describe its CommonJS build, in which the variant lies one level deeper. */
const RELEASE_SYNC = releaseSync as unknown as QuickJSSyncVariant;

let compiled: Promise<object> | undefined;

/**
 * A QuickJS of its own, in a memory that cannot grow beyond 64 MB and the room for `contextChars` characters. QuickJS' own memory limit does
 * not hold in WASM (it let a guest take 2.1 GB), the maximum of the memory does. The memory has its full size from the start, which costs
 * nothing until it is written to: growing would detach views that the library keeps over a call.
 */
export async function newQuickJs(contextChars: number): Promise<QuickJSWASMModule> {
  compiled ??= compile();
  const pages = GUEST_PAGES + Math.ceil((contextChars * BYTES_PER_CHARACTER) / PAGE_BYTES);
  const variant = newVariant(RELEASE_SYNC, {
    wasmModule: await compiled,
    wasmMemory: new WebAssembly.Memory({ initial: pages, maximum: pages }),
  });
  return newQuickJSWASMModuleFromVariant(refusingNull(variant));
}

async function compile(): Promise<object> {
  const file = fileURLToPath(import.meta.resolve('@jitl/quickjs-wasmfile-release-sync/wasm'));
  return WebAssembly.compile(await readFile(file));
}

/** Where memory is used up, the library would write a string to address 0; this makes it throw instead. */
function refusingNull(variant: QuickJSSyncVariant): QuickJSSyncVariant {
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
