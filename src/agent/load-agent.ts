import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { MadrugadaError, messageOf } from '../errors.ts';
import type { Agent } from './define-agent.ts';
import { promptAgent } from './prompt-agent.ts';
import { recursiveAgent } from './recursive/recursive-agent.ts';

/** The registry forgets the types of an agent's input and options; what its schemas have checked fits. */
const BUILT_IN: Record<string, Agent> = {
  prompt: promptAgent as unknown as Agent,
  recursive: recursiveAgent as unknown as Agent,
};

/** An agent with what identifies its code. */
export interface LoadedAgent {
  agent: Agent;
  /** Digest of the agent's module file (of its name, for a built-in one): attempts record it, so that a change between two shows. */
  sha256: string;
}

/** The form in which a batch keeps its agent: a built-in name, or the absolute path of a module. Throws if there is no such file. */
export function resolveAgent(spec: string): string {
  if (Object.hasOwn(BUILT_IN, spec)) return spec;
  const path = isAbsolute(spec) ? spec : resolve(spec);
  if (!existsSync(path))
    throw new MadrugadaError(
      `agent ${spec}: no such file, and not a built-in agent (${Object.keys(BUILT_IN).join(', ')})`,
    );
  return path;
}

/** Loads a built-in agent, or the default export of a module. Throws with the reason when the module cannot serve as one. */
export async function loadAgent(spec: string): Promise<LoadedAgent> {
  const resolved = resolveAgent(spec);
  const builtIn = BUILT_IN[resolved];
  if (builtIn) return { agent: builtIn, sha256: digest(`built-in ${resolved}`) };
  const sha256 = digest(await readFile(resolved));
  const agent: unknown = (await importModule(resolved, sha256)).default;
  if (!isAgent(agent))
    throw new MadrugadaError(`agent ${spec}: its default export must be defineAgent({ input, output, run })`);
  return { agent, sha256 };
}

/** The digest makes a module that was mended another one: Node never tries again to load one that has failed. */
async function importModule(path: string, sha256: string): Promise<{ default?: unknown }> {
  try {
    return await import(`${pathToFileURL(path).href}?${sha256}`);
  } catch (error) {
    throw new MadrugadaError(`agent ${path} cannot be loaded: ${messageOf(error)}`, 2, { cause: error });
  }
}

function isAgent(value: unknown): value is Agent {
  return (
    typeof value === 'object' &&
    value !== null &&
    'run' in value &&
    typeof value.run === 'function' &&
    'input' in value &&
    isSchema(value.input) &&
    'output' in value &&
    isSchema(value.output)
  );
}

function isSchema(value: unknown): boolean {
  return value !== null && (typeof value === 'object' || typeof value === 'function') && '~standard' in value;
}

function digest(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
