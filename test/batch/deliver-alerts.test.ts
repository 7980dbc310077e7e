import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type AlertChannels, alertChannels } from '../../src/batch/alert-channels.ts';
import { acknowledgeAlert, openAlerts } from '../../src/batch/alerts.ts';
import { type DeliveryFailure, deliverAlerts } from '../../src/batch/deliver-alerts.ts';
import { openClient } from '../../src/postgres/connect.ts';
import { loadTestBatch } from '../support/attempts.ts';
import { runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { moveClock } from '../support/move-clock.ts';
import { openTransaction } from '../support/open-transaction.ts';
import { testFolder } from '../support/test-folder.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());
beforeEach(() => db.pool.query('DELETE FROM madrugada.alert'));

async function raise(): Promise<string> {
  const batch = await loadTestBatch(db);
  await db.pool.query(`SELECT madrugada.stop_automatically($1, 'account', 'HTTP 401')`, [batch]);
  return batch;
}

/** A webhook that answers with each status in turn, and with 200 when there is none left. */
async function webhook(...statuses: number[]): Promise<{ url: string; bodies: string[] }> {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    bodies.push(body);
    response.writeHead(statuses.shift() ?? 200).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-path`, bodies };
}

/** Delivers over a connection of the worker role. */
async function deliver(channels: Partial<AlertChannels>): Promise<{ delivered: number; failures: DeliveryFailure[] }> {
  const client = await openClient({ url: db.url, as: 'worker', applicationName: 'test alerts' });
  const failures: DeliveryFailure[] = [];
  try {
    const all = { webhook: undefined, command: undefined, mail: undefined, ...channels };
    return { delivered: await deliverAlerts(client, all, (failure) => failures.push(failure)), failures };
  } finally {
    await client.end();
  }
}

test('an alert is posted to the webhook as JSON, once', async () => {
  const hook = await webhook();
  const batch = await raise();
  const counts = [await deliver({ webhook: hook.url }), await deliver({ webhook: hook.url })];

  expect(counts.map(({ delivered }) => delivered)).toEqual([1, 0]);
  expect(hook.bodies.map((body) => JSON.parse(body))).toEqual([
    {
      id: expect.any(Number),
      raised_at: expect.any(String),
      kind: 'account',
      batch,
      task_id: null,
      message: 'HTTP 401',
    },
  ]);
});

test('of many processes that deliver at the same time, one delivers an alert', async () => {
  const hook = await webhook();
  await raise();
  await Promise.all(Array.from({ length: 8 }, () => deliver({ webhook: hook.url })));
  expect(hook.bodies).toHaveLength(1);
});

test('a delivery that another process is just claiming is left to it, and the next one due is delivered meanwhile', async () => {
  const hook = await webhook(500, 500);
  const alerts = [await raise(), await raise()];
  await deliver({ webhook: hook.url });
  await moveClock(db, '31 seconds');
  const other = await openTransaction(db);
  const { rows } = await other.client.query(
    `SELECT document ->> 'batch' AS batch FROM madrugada.claim_delivery(ARRAY['webhook'])`,
  );
  hook.bodies.length = 0;
  const { delivered, failures } = await deliver({ webhook: hook.url });

  expect([delivered, failures]).toEqual([1, []]);
  expect([rows[0]?.batch, ...hook.bodies.map((body) => JSON.parse(body).batch)].toSorted()).toEqual(alerts.toSorted());
});

test('a delivery that is refused is tried again when its back-off is over, and not before', async () => {
  const hook = await webhook(500);
  await raise();
  const first = await deliver({ webhook: hook.url });
  const tooEarly = await deliver({ webhook: hook.url });
  await moveClock(db, '31 seconds');
  const second = await deliver({ webhook: hook.url });

  expect(first.failures).toMatchObject([{ channel: 'webhook', error: 'HTTP 500' }]);
  expect([first, tooEarly, second].map(({ delivered }) => delivered)).toEqual([0, 0, 1]);
  expect(hook.bodies).toHaveLength(2);
});

test('each failure doubles the back-off', async () => {
  const hook = await webhook(500, 500, 500);
  await raise();
  await deliver({ webhook: hook.url });
  await moveClock(db, '31 seconds');
  await deliver({ webhook: hook.url });
  await moveClock(db, '31 seconds');
  await deliver({ webhook: hook.url });
  const early = hook.bodies.length;
  await moveClock(db, '30 seconds');
  await deliver({ webhook: hook.url });

  expect([early, hook.bodies.length]).toEqual([2, 3]);
});

test('the command gets the alert on its standard input, and none of the secrets', async () => {
  const folder = testFolder();
  await raise();
  process.env.ANTHROPIC_API_KEY = 'sk-secret';
  onTestFinished(() => {
    delete process.env.ANTHROPIC_API_KEY;
  });
  await deliver({ command: `cat > ${folder}/alert; env > ${folder}/env` });

  expect(JSON.parse(readFileSync(join(folder, 'alert'), 'utf8'))).toMatchObject({ kind: 'account' });
  expect(readFileSync(join(folder, 'env'), 'utf8')).not.toContain('sk-secret');
});

test('a command that fails is said, and does not keep the webhook from being called', async () => {
  const hook = await webhook();
  await raise();
  const { delivered, failures } = await deliver({ webhook: hook.url, command: 'exit 3' });

  expect(delivered).toBe(1);
  expect(failures).toMatchObject([{ channel: 'command', error: 'exit 3' }]);
});

test('a webhook that cannot be reached is said without its URL', async () => {
  await raise();
  const { failures } = await deliver({ webhook: 'http://127.0.0.1:9/secret-path' });
  const { rows } = await db.pool.query('SELECT last_error FROM madrugada.alert_delivery');

  expect(failures).toMatchObject([
    { channel: 'webhook', error: expect.stringMatching(/^(ECONNREFUSED|no connection)$/) },
  ]);
  expect(JSON.stringify(rows)).not.toContain('secret-path');
});

test('an alert that a person has acknowledged is not delivered any more', async () => {
  const hook = await webhook(500);
  await raise();
  await deliver({ webhook: hook.url });
  const operator = await openClient({ url: db.url, as: 'operator', applicationName: 'test alerts' });
  for (const { id } of await openAlerts(db.pool)) await acknowledgeAlert(operator, id, 'Ana', undefined);
  await operator.end();
  await moveClock(db, '31 seconds');
  await deliver({ webhook: hook.url });

  expect(hook.bodies).toHaveLength(1);
});

test('a webhook that is no URL is refused without being repeated', () => {
  expect(() => alertChannels({ MADRUGADA_ALERT_WEBHOOK: 'hooks.example/secret' })).toThrow(
    /^MADRUGADA_ALERT_WEBHOOK must be a URL that begins with https:\/\/ or http:\/\/$/,
  );
});

test('madrugada alert deliver delivers what is due, and says what did not get through', async () => {
  const folder = testFolder();
  await raise();
  const run = (command: string) =>
    runCommand(['alert', 'deliver', '--json'], {
      environment: { DATABASE_URL: db.url, MADRUGADA_ALERT_COMMAND: command },
    });
  const failed = await run('exit 1');
  await moveClock(db, '31 seconds');
  const delivered = await run(`cat > ${folder}/alert`);

  expect(failed.code).toBe(1);
  expect(JSON.parse(failed.stdout)).toEqual({ delivered: 0, failures: [expect.stringContaining('exit 1')] });
  expect(JSON.parse(delivered.stdout)).toEqual({ delivered: 1, failures: [] });
  expect(existsSync(join(folder, 'alert'))).toBe(true);
});
