import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkSchema } from '../agent/define-agent.ts';
import { loadAgent, resolveAgent } from '../agent/load-agent.ts';
import { asPerson } from '../batch/as-person.ts';
import { MadrugadaError } from '../errors.ts';
import { attestCopies } from '../postgres/attest-copies.ts';
import { attestDurability } from '../postgres/attest-durability.ts';
import { attestIdentity } from '../postgres/attest-identity.ts';
import { attestMigrations } from '../postgres/attest-schema.ts';
import { openClient } from '../postgres/connect.ts';
import { startEmbedded, stopEmbedded } from '../postgres/embedded.ts';
import type { Finding } from '../postgres/finding.ts';
import { migrate } from '../postgres/migrate.ts';
import { judgeModule, type ModuleRuns, type ModuleVerdict } from './judge-module.ts';
import { type Misfortune, type RehearsedAction, runModule } from './module-stage.ts';
import { startSimulatedProvider } from './simulated-provider.ts';
import { createFreshDatabase, rehearsalHome } from './stage.ts';

export interface ModuleRehearsal {
  module: string;
  input: unknown;
  by: string;
  /** The installation's database: its store is attested, and the verdict put on record there. */
  url: string;
  say: (line: string) => void;
}

export interface ModuleReport {
  agent: string;
  agentSha256: string;
  verdict: ModuleVerdict;
  reasons: string[];
  runs: ModuleRuns;
  store: Finding[];
}

/**
 * Rehearses an agent module against the targets it names: a clean run, one whose worker is killed between each effect and its record, and one
 * whose first read-backs fail; each taken back at its end. Puts the verdict on record for this version. Throws when the module cannot be run.
 */
export async function rehearseModule({
  module,
  input,
  by,
  url,
  say,
}: ModuleRehearsal): Promise<ModuleReport & { id: number }> {
  const { agent, sha256 } = await loadAgent(module);
  const path = resolveAgent(module);
  const { problems } = await checkSchema(agent.input, input);
  if (problems) throw new MadrugadaError(`the input does not fit ${module}: ${problems.join('; ')}`);
  const folder = join(rehearsalHome(), 'module');
  const server = await startEmbedded(rehearsalHome());
  const provider = await startSimulatedProvider(join(folder, 'bill.jsonl'));
  try {
    const scratch = await createFreshDatabase(server.url, 'rehearsal_module');
    await migrate(scratch);
    const place = { url: scratch, folder, provider, module: path, actions: agent.actions ?? [], input, by };
    const run = (misfortune: Misfortune) => {
      say(`${misfortune.name}: ${SAID[misfortune.name]}`);
      return runModule(place, misfortune);
    };
    const clean = await run({ name: 'clean', killAfter: [], failVerification: false });
    const names = [...new Set(clean.map(({ name }) => name))];
    const crash = await run({ name: 'crash', killAfter: names, failVerification: false });
    for (const name of names)
      if (!existsSync(join(folder, 'crash', `killed-${name}`)))
        throw new MadrugadaError(
          `action ${name} was never executed in the run that was to be killed; see ${folder}`,
          1,
        );
    const verification = await run({ name: 'verification', killAfter: [], failVerification: true });
    const store = await attestStore(url);
    const runs = { clean, crash, verification };
    const report = { agent: path, agentSha256: sha256, ...judgeModule(runs, store), runs, store };
    return { ...report, id: await record(url, report, by) };
  } finally {
    await provider.stop();
    await stopEmbedded(rehearsalHome());
  }
}

const SAID: Record<Misfortune['name'], string> = {
  clean: 'approved by the rehearsal, executed, read back, taken back',
  crash: 'the worker is killed with SIGKILL after each effect, before its record; then resumed, and taken back',
  verification: 'the first read-back of each action reports something else, so that it is rolled back',
};

/** Durable? searchable? does it survive a deploy? As `madrugada doctor` sees it. */
async function attestStore(url: string): Promise<Finding[]> {
  const login = await openClient({ url, applicationName: 'madrugada rehearsal' });
  const auditor = await openClient({ url, as: 'auditor', applicationName: 'madrugada rehearsal' });
  try {
    return [
      ...(await attestDurability(login)),
      ...(await attestCopies(login)),
      await attestMigrations(auditor),
      await attestIdentity(auditor),
    ];
  } finally {
    await login.end();
    await auditor.end();
  }
}

async function record(url: string, report: ModuleReport, by: string): Promise<number> {
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada rehearsal' });
  try {
    return await asPerson(client, { by }, async () => {
      const { rows } = await client.query<{ id: number }>('SELECT madrugada.record_rehearsal($1, $2, $3, $4) AS id', [
        ...[report.agentSha256, report.agent, report.verdict, JSON.stringify(report)],
      ]);
      return Number(rows[0]?.id);
    });
  } finally {
    await client.end();
  }
}

/** The report for people, in Markdown. */
export function describeModule({ agent, agentSha256, verdict, reasons, runs, store }: ModuleReport): string {
  return [
    `# Rehearsal of ${agent}`,
    '',
    `Version (sha256): ${agentSha256}`,
    '',
    `**Verdict: ${verdict}**`,
    '',
    ...reasons.map((reason) => `- ${reason}`),
    ...(['clean', 'crash', 'verification'] as const).flatMap((name) => [
      '',
      `## ${name}: ${SAID[name]}`,
      ...runs[name].flatMap(describeAction),
    ]),
    '',
    '## The store',
    '',
    ...store.map(({ level, check, seen }) => `- ${level}: ${check}: ${seen}`),
  ].join('\n');
}

function describeAction(action: RehearsedAction): string[] {
  const show = (value: unknown) => (value === null ? 'not shown' : JSON.stringify(value));
  return [
    '',
    `### ${action.name} ${JSON.stringify(action.arguments)}`,
    '',
    `- key: ${action.key}`,
    `- precondition: checked by kind ${action.kind}; before: ${show(action.shown.before)}`,
    `- verification: read back by kind ${action.kind}${action.evidenceIsWeak ? ' (weak)' : ''}; then: ${show(action.shown.effect)}`,
    `- rollback (${action.rollbackKind}): ${action.rollbackPlan}; at the end: ${show(action.shown.end)}`,
    `- ended as ${action.state}, executed ${action.execution} times, undone ${action.undo} times${action.why ? `: ${action.why}` : ''}`,
  ];
}
