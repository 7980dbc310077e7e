import type { Command } from 'commander';
import { attestAlerts } from '../batch/attest-alerts.ts';
import { type Exposure, exposureSentence, readTotalExposure } from '../bill/exposure.ts';
import { attestBill, readBillLines } from '../bill/proof-allowed.ts';
import { MadrugadaError } from '../errors.ts';
import { attestClock } from '../postgres/attest-clock.ts';
import { attestRoles, attestSession } from '../postgres/attest-connection.ts';
import { attestCopies } from '../postgres/attest-copies.ts';
import { attestDurability } from '../postgres/attest-durability.ts';
import { attestIdentity } from '../postgres/attest-identity.ts';
import { attestLogin } from '../postgres/attest-login.ts';
import { attestRights } from '../postgres/attest-rights.ts';
import { attestMigrations, attestObjects } from '../postgres/attest-schema.ts';
import { openClient } from '../postgres/connect.ts';
import type { Finding } from '../postgres/finding.ts';
import { migrate } from '../postgres/migrate.ts';
import { databaseUrl } from '../postgres/url.ts';
import { attestConnections } from '../worker/connection-budget.ts';
import { positiveInteger } from './flags.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';

const LOOK = 1;

const HELP = `
Is this installation able to keep its promises, and which proof does its bill allow? Looks at the database server, the connection to it,
schema, rights and bills, and changes nothing (the embedded server is started and migrated, as by any command).

Examples:
  madrugada doctor
  madrugada doctor --workers 8 --json

Exit code 1: a check fails; a warning is none. 3: the database cannot be reached.`;

/** `madrugada doctor`: what the promises rest on. */
export function register(program: Command): void {
  program
    .command('doctor')
    .description('check that this installation can keep its promises')
    .option('--workers <n>', 'worker processes of a night', positiveInteger, 4)
    .addHelpText('after', HELP)
    .action(doctor);
}

async function doctor(flags: CommonFlags & { workers: number }): Promise<void> {
  const url = await databaseUrl();
  if (!process.env.DATABASE_URL) await migrateOwn(url);
  const findings = [...(await attestServer(url, flags.workers)), await attestRoles(url)];
  const inside = findings.at(-1)?.level === 'ok' ? await attestInside(url) : undefined;
  findings.push(...(inside?.findings ?? []));
  const sentence = inside?.exposure && exposureSentence(inside.exposure);
  const document = {
    ok: !findings.some(({ level }) => level === 'fail'),
    checks: findings.map((finding) => ({ ...finding, next: finding.next ?? null })),
    exposure: inside?.exposure ? snakeKeys(inside.exposure) : null,
    exposure_sentence: sentence ?? null,
  };
  printResult(flags, document, describe(findings, sentence));
  if (!document.ok) process.exitCode = LOOK;
}

/** What keeps it from being migrated, the check of the migrations says. */
async function migrateOwn(url: string): Promise<void> {
  try {
    await migrate(url);
  } catch (error) {
    if (!(error instanceof MadrugadaError)) throw error;
  }
}

/** As the login user, as whom workers connect before they take their role. */
async function attestServer(url: string, workers: number): Promise<Finding[]> {
  const client = await openClient({ url, applicationName: 'madrugada doctor' });
  try {
    return [
      ...(await attestDurability(client)),
      ...(await attestCopies(client)),
      await attestClock(client),
      await attestLogin(client),
      await attestSession(url),
      await attestConnections(client, workers),
    ];
  } finally {
    await client.end();
  }
}

/** What needs the schema. Without it, the finding of the migrations stands alone. */
async function attestInside(url: string): Promise<{ findings: Finding[]; exposure: Exposure | undefined }> {
  const client = await openClient({ url, as: 'auditor', applicationName: 'madrugada doctor' });
  try {
    const migrations = await attestMigrations(client);
    if (migrations.level !== 'ok') return { findings: [migrations], exposure: undefined };
    const identity = await attestIdentity(client);
    const exposure = await readTotalExposure(client);
    const outside = [await attestAlerts(client, process.env), attestBill(await readBillLines(client))];
    // last, because they change the search path
    const schema = [await attestObjects(client), ...(await attestRights(client))];
    return { findings: [migrations, ...schema, identity, ...outside], exposure };
  } finally {
    await client.end();
  }
}

function describe(findings: Finding[], exposure: string | undefined): string {
  const count = (wanted: Finding['level']) => findings.filter(({ level }) => level === wanted).length;
  const todo = findings.filter(({ next }) => next !== undefined);
  return [
    formatTable(
      ['', 'check', 'seen'],
      findings.map(({ level, check, seen }) => [level === 'fail' ? 'FAIL' : level, check, seen]),
    ),
    ...(todo.length === 0 ? [] : ['', 'What to do next:', ...todo.map(({ check, next }) => `- ${check}: ${next}`)]),
    '',
    ...(exposure === undefined ? [] : [`In this database, ${exposure}.`]),
    count('fail') === 0
      ? `This installation can keep its promises; ${count('warn')} warnings.`
      : `This installation cannot keep its promises: ${count('fail')} checks fail, ${count('warn')} warnings.`,
  ].join('\n');
}
