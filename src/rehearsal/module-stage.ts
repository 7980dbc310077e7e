import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Pool } from 'pg';
import { CHECKLIST, decideAction } from '../action/decide-action.ts';
import type { AnyAction } from '../action/define-action.ts';
import { loadBatch } from '../batch/load-batch.ts';
import { MadrugadaError } from '../errors.ts';
import { openClient, openPool } from '../postgres/connect.ts';
import type { RehearsedAs } from './rehearsed-agent.ts';
import type { SimulatedProvider } from './simulated-provider.ts';

/** An action of a rehearsal as it ended, with what its target showed. */
export interface RehearsedAction {
  id: number;
  key: string;
  name: string;
  arguments: unknown;
  state: string;
  why: string | null;
  execution: number;
  undo: number;
  kind: string;
  rollbackKind: string;
  rollbackPlan: string;
  evidenceIsWeak: boolean;
  /** Shown before the proposal, when its effect had been read back, and at the end; null where the action shows nothing. */
  shown: { before: unknown; effect: unknown; end: unknown };
}

/** Where a module is rehearsed: a scratch database, a simulated provider, and a person who approves. */
export interface ModulePlace {
  url: string;
  folder: string;
  provider: SimulatedProvider;
  module: string;
  /** The definitions as this process loaded them, to look at the targets with. */
  actions: readonly AnyAction[];
  input: unknown;
  /** Whose rehearsal it is; named in each approval. */
  by: string;
}

/** What befalls one run. */
export interface Misfortune {
  name: 'clean' | 'crash' | 'verification';
  /** Actions after whose effect, before its record, the worker is killed. */
  killAfter: readonly string[];
  failVerification: boolean;
}

/** More rounds than any module needs that proposes, is approved, and proposes again. */
const MAX_ROUNDS = 50;
const TASKS_LEFT = 1;

/** Runs the module's task once, with this misfortune, until nothing of it goes on by itself. Its actions as they ended. */
export async function runModule(place: ModulePlace, misfortune: Misfortune): Promise<RehearsedAction[]> {
  const folder = join(place.folder, misfortune.name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const batch = await load(place, misfortune);
  const pool = openPool({ url: place.url, applicationName: 'madrugada/rehearsal', max: 2 });
  try {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      await night(place, misfortune, folder, batch);
      if ((await approveAll(pool, place, batch)) === 0) return await readActions(pool, place, folder, batch);
    }
    throw new MadrugadaError(`the module still proposes actions after ${MAX_ROUNDS} rounds of approvals`, 1);
  } finally {
    await pool.end();
  }
}

/** A batch of a new name each time: the keys of its actions are new to targets that keep them. */
async function load({ url, input, by }: ModulePlace, { name, killAfter }: Misfortune): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada/rehearsal load' });
  try {
    const loaded = await loadBatch(
      client,
      {
        id: `rehearsal-${name}-${Date.now()}`,
        version: 'v1',
        agent: scriptBeside('rehearsed-agent'),
        agentOptions: {},
        maxAttempts: 1 + killAfter.length,
        leaseSeconds: 600,
        doubtPolicy: 'pay_again',
        unrehearsed: true,
        by,
      },
      oneTask(input),
    );
    return loaded.batchKey;
  } finally {
    await client.end();
  }
}

async function* oneTask(input: unknown) {
  yield { position: 1, item: '1', inputJson: JSON.stringify(input) };
}

/** `madrugada run`, with a worker process that may be killed; it ends when nothing goes on without a person. */
async function night(place: ModulePlace, misfortune: Misfortune, folder: string, batch: string): Promise<void> {
  const log = join(folder, 'night.log');
  const told: RehearsedAs = { module: place.module, folder, failVerification: misfortune.failVerification };
  const kills = misfortune.killAfter.map(
    (name) => `action.execute.after[${name}]:kill(${join(folder, `killed-${name}`)})`,
  );
  const child = fork(scriptBeside('../cli/main'), ['run', batch, '--workers', '1', '--slot', 'rehearsal'], {
    env: {
      ...process.env,
      ...place.provider.environment,
      DATABASE_URL: place.url,
      MADRUGADA_REHEARSAL: JSON.stringify(told),
      MADRUGADA_FAILPOINT: kills.join(','),
    },
    stdio: ['ignore', 'ignore', openSync(log, 'a'), 'ipc'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0 && code !== TASKS_LEFT)
    throw new MadrugadaError(`the rehearsal's night ended with exit code ${String(code)}; see ${log}`, 1);
}

/** Approves what waits, with the role and the name of an approver; how many. */
async function approveAll(pool: Pool, { url, by }: ModulePlace, batch: string): Promise<number> {
  const { rows } = await pool.query<{ id: number; digest: string; approval: string; challenge: string }>(
    `SELECT a.id, a.digest, a.approval, madrugada.action_challenge(a) AS challenge FROM madrugada.action a
      WHERE a.batch_key = $1 AND a.state = 'proposed' ORDER BY a.id`,
    [batch],
  );
  const client = await openClient({ url, as: 'approver', applicationName: 'madrugada/rehearsal approver' });
  try {
    for (const { id, digest, approval, challenge } of rows)
      for (const person of approval === 'two-people' ? ['first', 'second'] : ['only'])
        await decideAction(
          client,
          { id, digest, verdict: 'approve', checklist: CHECKLIST, ...(approval === 'challenge' && { challenge }) },
          { by: `rehearsal of ${by} (${person} approver)`, reason: 'a rehearsal' },
        );
  } finally {
    await client.end();
  }
  return rows.length;
}

async function readActions(pool: Pool, place: ModulePlace, folder: string, batch: string): Promise<RehearsedAction[]> {
  const { rows } = await pool.query<Omit<RehearsedAction, 'shown'> & { present: unknown }>(
    `SELECT id, key, name, arguments, state, why, execution, undo, kind, rollback_kind AS "rollbackKind", rollback_plan AS "rollbackPlan",
            evidence_is_weak AS "evidenceIsWeak", present
       FROM madrugada.action WHERE batch_key = $1 ORDER BY id`,
    [batch],
  );
  return Promise.all(
    rows.map(async ({ present, ...action }) => {
      const definition = place.actions.find(({ name }) => name === action.name);
      const end = (await definition?.present?.(action.arguments)) ?? null;
      return { ...action, shown: { before: present, effect: noted(join(folder, `${action.key}.json`)), end } };
    }),
  );
}

function noted(file: string): unknown {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
}

function scriptBeside(name: string): string {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return fileURLToPath(new URL(`./${name}.${extension}`, import.meta.url));
}
