import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { alertChannels } from '../../src/batch/alert-channels.ts';
import { type DeliveryFailure, deliverAlerts } from '../../src/batch/deliver-alerts.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { type CommandResult, runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type MailServer, startMailServer } from '../support/mail-server.ts';
import { moveClock } from '../support/move-clock.ts';
import { testFolder } from '../support/test-folder.ts';

const PASSWORD = 'p@ss/word:1';
/** As a URL spells it, in Base64 as SMTP sends it, and as it is. */
const SPELLINGS = [
  PASSWORD,
  encodeURIComponent(PASSWORD),
  Buffer.from(PASSWORD).toString('base64'),
  Buffer.from(`\0night\0${PASSWORD}`).toString('base64'),
];

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());
beforeEach(() => db.pool.query('DELETE FROM madrugada.alert'));

async function raise(why = 'HTTP 401'): Promise<string> {
  const batch = await loadTestBatch(db);
  await db.pool.query(`SELECT madrugada.stop_automatically($1, 'account', $2)`, [batch, why]);
  return batch;
}

function settings({ port }: Pick<MailServer, 'port'>, change: Record<string, string> = {}): Record<string, string> {
  return {
    MADRUGADA_ALERT_SMTP: `smtp://night:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}`,
    MADRUGADA_ALERT_MAIL_FROM: 'night@example.org',
    MADRUGADA_ALERT_MAIL_TO: 'ana@example.org',
    ...change,
  };
}

/** Delivers over a connection of the worker role, as a worker does. */
async function deliver(
  environment: Record<string, string>,
): Promise<{ delivered: number; failures: DeliveryFailure[] }> {
  const client = await openClient({ url: db.url, as: 'worker', applicationName: 'test alerts' });
  const failures: DeliveryFailure[] = [];
  try {
    const delivered = await deliverAlerts(client, alertChannels(environment), (failure) => failures.push(failure));
    return { delivered, failures };
  } finally {
    await client.end();
  }
}

/** Delivers in a process of its own, which may die. */
function command(environment: Record<string, string>): Promise<CommandResult> {
  return runCommand(['alert', 'deliver', '--json'], { environment: { DATABASE_URL: db.url, ...environment } });
}

const idsOf = ({ mails }: MailServer) => mails.map(({ headers }) => headers.get('message-id'));

test('an alert is sent by mail, once, from a login, and says what is to be done next', async () => {
  const server = await startMailServer({ password: PASSWORD });
  const batch = await raise();
  const counts = [await deliver(settings(server)), await deliver(settings(server))];

  expect(counts).toEqual([
    { delivered: 1, failures: [] },
    { delivered: 0, failures: [] },
  ]);
  expect(server.logins).toEqual(['night']);
  expect(server.mails).toMatchObject([{ from: 'night@example.org', to: ['ana@example.org'] }]);
  expect(server.mails[0]?.headers.get('subject')).toMatch(
    new RegExp(`^madrugada: alert \\d+, account, batch ${batch}$`),
  );
  expect(server.mails[0]?.body).toMatch(/^HTTP 401\r\n[\s\S]*madrugada status batch-\d+:v1\r\n/);
});

test('each address is sent a mail of its own, and one that is refused does not keep the others from theirs', async () => {
  const server = await startMailServer({ password: PASSWORD });
  const two = settings(server, { MADRUGADA_ALERT_MAIL_TO: 'ana@example.org, rui@example.org' });
  await raise();
  server.refusals.push(450);
  const first = await deliver(two);
  await moveClock(db, '31 seconds');
  const second = await deliver(two);

  expect([first.delivered, first.failures]).toMatchObject([
    1,
    [{ error: 'the mail server refused the mail: 450 4.2.0' }],
  ]);
  expect([second.delivered, second.failures]).toEqual([1, []]);
  expect(server.mails.map(({ to }) => to[0]).sort()).toEqual(['ana@example.org', 'rui@example.org']);
});

test('a mail that is refused for the moment is tried again when its back-off is over, and not before', async () => {
  const server = await startMailServer({ password: PASSWORD });
  await raise();
  server.refusals.push(451);
  const first = await deliver(settings(server));
  const tooEarly = await deliver(settings(server));
  await moveClock(db, '31 seconds');
  const second = await deliver(settings(server));

  expect([first, tooEarly, second].map(({ delivered }) => delivered)).toEqual([0, 0, 1]);
  expect(server.mails).toHaveLength(1);
});

test('a process that dies between a mail and its record brings the same mail twice: its Message-ID tells', async () => {
  const server = await startMailServer({ password: PASSWORD });
  await raise();
  const died = await command({ ...settings(server), MADRUGADA_FAILPOINT: 'alert.record.before:kill' });
  await moveClock(db, '31 seconds');
  const again = await command(settings(server));
  const afterwards = await command(settings(server));

  expect(died.signal).toBe('SIGKILL');
  expect(JSON.parse(again.stdout)).toEqual({ delivered: 1, failures: [] });
  expect(JSON.parse(afterwards.stdout)).toEqual({ delivered: 0, failures: [] });
  expect(server.mails).toHaveLength(2);
  expect(new Set(idsOf(server)).size).toBe(1);
  expect(server.mails[0]?.headers.get('date')).toBe(server.mails[1]?.headers.get('date'));
});

test('two alerts have two Message-IDs, also where two databases have given them the same number', async () => {
  const server = await startMailServer({ password: PASSWORD });
  await raise();
  await deliver(settings(server));
  const { rows } = await db.pool.query<{ id: number }>('DELETE FROM madrugada.alert RETURNING id');
  await raise();
  await db.pool.query('UPDATE madrugada.alert SET id = DEFAULT'); // the other database's
  await db.pool.query(`SELECT setval('madrugada.alert_id_seq', $1, false)`, [rows[0]?.id]);
  await db.pool.query('UPDATE madrugada.alert SET id = DEFAULT');
  await deliver(settings(server));

  const numbers = server.mails.map(({ headers }) => headers.get('x-madrugada-alert'));
  expect(numbers[0]).toBe(numbers[1]);
  expect(new Set(idsOf(server)).size).toBe(2);
});

test('a wrong password is said without being repeated, on the screen, in the database and by a server that repeats it', async () => {
  const server = await startMailServer({ password: 'another' });
  await raise();
  const { code, stdout, stderr } = await command(settings(server));
  const { rows } = await db.pool.query('SELECT * FROM madrugada.alert_delivery');
  const audit = await db.pool.query('SELECT * FROM madrugada.audit_event');

  expect(code).toBe(1);
  expect(JSON.parse(stdout).failures).toEqual([
    expect.stringContaining('by mail:ana@example.org: the mail server refused user or password: 535'),
  ]);
  expect(rows).toHaveLength(1);
  const everything = [stdout, stderr, JSON.stringify(rows), JSON.stringify(audit.rows)].join('\n');
  for (const spelling of SPELLINGS) expect(everything).not.toContain(spelling);
});

test('a mail server that is away is said by its error, and the alert is sent when it is back', async () => {
  await raise();
  const { failures } = await deliver(settings({ port: 9 }));
  const server = await startMailServer({ password: PASSWORD });
  await moveClock(db, '31 seconds');

  expect(failures).toMatchObject([{ channel: 'mail:ana@example.org', error: 'the mail server: ECONNREFUSED' }]);
  expect((await deliver(settings(server))).delivered).toBe(1);
});

test('a batch or message with line breaks adds no header', async () => {
  const server = await startMailServer({ password: PASSWORD });
  await db.pool.query(`INSERT INTO madrugada.alert (kind, message) VALUES (E'x\\r\\nBcc: eve@example.org', 'm')`);
  await deliver(settings(server));

  expect(server.mails[0]?.to).toEqual(['ana@example.org']);
  expect(server.mails[0]?.headers.has('bcc')).toBe(false);
});

test('smtps sends under TLS to a server whose certificate is trusted, and sends nothing to another', async () => {
  const folder = testFolder();
  const file = (name: string) => join(folder, name);
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost'],
      ...['-addext', 'subjectAltName=DNS:localhost', '-keyout', file('key.pem'), '-out', file('cert.pem')],
    ],
    { stdio: 'pipe' },
  );
  const tls = { key: readFileSync(file('key.pem'), 'utf8'), cert: readFileSync(file('cert.pem'), 'utf8') };
  const server = await startMailServer({ password: PASSWORD, tls });
  const url = `smtps://night:${encodeURIComponent(PASSWORD)}@localhost:${server.port}`;
  const environment = settings(server, { MADRUGADA_ALERT_SMTP: url });
  await raise();
  const untrusted = await command(environment);
  await moveClock(db, '31 seconds');
  const trusted = await command({ ...environment, NODE_EXTRA_CA_CERTS: file('cert.pem') });

  expect(JSON.parse(untrusted.stdout)).toMatchObject({
    delivered: 0,
    failures: [expect.stringContaining('mail server: E')],
  });
  expect(server.logins).toEqual(['night']);
  expect(JSON.parse(trusted.stdout)).toEqual({ delivered: 1, failures: [] });
});

test('a password does not leave this machine in the clear', async ({ skip }) => {
  const outside = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4');
  if (outside === undefined) return skip('this machine has no address but loopback');
  const server = await startMailServer({ password: PASSWORD, host: outside.address });
  const at = (login: string) => ({ MADRUGADA_ALERT_SMTP: `smtp://${login}${outside.address}:${server.port}` });
  await raise();
  const { failures } = await deliver(settings(server, at(`night:${encodeURIComponent(PASSWORD)}@`)));

  expect(failures).toMatchObject([{ error: 'the mail server and we did not agree on TLS' }]);
  expect(server.logins).toEqual([]);
});

test.for<[string, Record<string, string>, string]>([
  ['without an address to send to', { MADRUGADA_ALERT_MAIL_TO: '' }, 'set all three, or none'],
  ['of another protocol', { MADRUGADA_ALERT_SMTP: `https://night:${PASSWORD}@mail.example` }, 'must be smtp://'],
  ['whose password is no URL', { MADRUGADA_ALERT_SMTP: 'smtp://night:%ZZsecret@mail.example' }, 'stands in name and'],
  [
    'whose URL stands in the wrong place',
    { MADRUGADA_ALERT_MAIL_FROM: 'smtp://u:secret@h' },
    'MAIL_FROM must be an address',
  ],
])('a mail setting %s is refused without being repeated', ([, change, message]) => {
  const read = () => alertChannels(settings({ port: 1 }, change));
  expect(read).toThrow(message);
  expect(read).not.toThrow(/secret|p@ss/);
});

test('madrugada.config.ts may say where mail goes', async () => {
  const server = await startMailServer({ password: PASSWORD });
  const folder = testFolder();
  const { MADRUGADA_ALERT_SMTP: alertSmtp } = settings(server);
  const config = { alertSmtp, alertMailFrom: 'night@example.org', alertMailTo: 'rui@example.org' };
  await raise();

  writeFileSync(join(folder, 'madrugada.config.ts'), `export default ${JSON.stringify(config)};\n`);
  await runCommand(['alert', 'deliver'], { folder, environment: { DATABASE_URL: db.url } });

  expect(server.mails.map(({ to }) => to)).toEqual([['rui@example.org']]);
});
