import { packContext } from '../../../src/agent/sandbox/pack-context.ts';
import type { CallKind, SandboxSettings, TurnReport } from '../../../src/agent/sandbox/protocol.ts';
import type { Sandbox } from '../../../src/agent/sandbox/sandbox.ts';
import type { SandboxPool } from '../../../src/agent/sandbox/sandbox-pool.ts';

/** What the sandboxes of these tests have as their context, unless they say otherwise. */
export const DOCUMENTS = [
  {
    name: 'rivers.txt',
    text: 'The Douro flows west.\nThe Évora plain is dry.\nRivers of the north: Minho, Lima, Douro.',
  },
  { name: 'hills.txt', text: 'Serra da Estrela is high.\nNo river here.' },
];

export const SETTINGS: SandboxSettings = {
  seed: '0123456789abcdef'.repeat(4),
  nowMs: Date.UTC(2026, 10, 3, 2, 30),
  maxOutputChars: 4000,
  canRecurse: false,
};

type OnCall = (kind: CallKind, payload: string) => Promise<string>;

/** Answers every sub-call at once with what it was asked. */
export const echo: OnCall = async (_kind, payload) => `re: ${payload.slice(0, 40)}`;

/** A sandbox with the usual settings. */
export function openSandbox(
  pool: SandboxPool,
  {
    onCall = echo,
    context = DOCUMENTS,
    settings = {},
  }: { onCall?: OnCall; context?: Parameters<typeof packContext>[0]; settings?: Partial<SandboxSettings> } = {},
): Sandbox {
  return pool.open({ ...SETTINGS, ...settings }, packContext(context), onCall);
}

/** Runs turns of one block each, and returns the report of every one. */
export async function runTurns(sandbox: Sandbox, turns: readonly (string | string[])[]): Promise<TurnReport[]> {
  const reports: TurnReport[] = [];
  for (const [index, code] of turns.entries())
    reports.push(await sandbox.run(index + 1, typeof code === 'string' ? [code] : code));
  return reports;
}

/** What turns of one block each have printed, in a sandbox of their own. */
export async function outputsOf(pool: SandboxPool, turns: readonly (string | string[])[]): Promise<string[]> {
  const sandbox = openSandbox(pool);
  try {
    return (await runTurns(sandbox, turns)).map(({ output, failure }) =>
      failure === undefined ? output.trimEnd() : `${output}FAILED ${failure}`.trimEnd(),
    );
  } finally {
    sandbox.close();
  }
}
