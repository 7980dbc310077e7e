import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCommand } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const PASSWORD = 'p@ss/word of ours';
let db: TestDatabase;
let silent: Server;
beforeAll(async () => {
  db = await createTestDatabase();
  silent = createServer((socket) => socket.destroy()); // hangs up on everybody
  await new Promise<void>((listening) => silent.listen(0, '127.0.0.1', listening));
});
afterAll(async () => {
  silent.close();
  await db.drop();
});

const COMMANDS = [['init'], ['db', 'psql', '-c', 'SELECT 1'], ['run', '2026-11'], ['worker', '--slot', 'a/1']];

/** The database's URL with something changed. */
function urlWith(changes: Partial<Pick<URL, 'password' | 'port' | 'pathname'>>): string {
  return Object.assign(new URL(db.url), changes).href;
}

/** Runs every command with this URL, with its stack traces and its JSON; none may say the password. */
async function expectFailure(url: string, code: number, message: string): Promise<void> {
  const secrets = [PASSWORD, encodeURIComponent(PASSWORD), new URL(db.url).password];
  for (const args of COMMANDS) {
    const result = await runCommand(['--debug', '--json', ...args], {
      environment: { DATABASE_URL: url, PATH: '/nowhere' },
    });
    expect(result, args.join(' ')).toMatchObject({ code, stderr: expect.stringContaining(message) });
    for (const secret of secrets) expect(result.stdout + result.stderr).not.toContain(secret);
  }
}

test('a wrong password is called that, and not repeated', async () => {
  await expectFailure(urlWith({ password: PASSWORD }), 3, 'the database refused the password; check DATABASE_URL');
});

test('a port on which nobody listens cannot be reached', async () => {
  await expectFailure(
    urlWith({ password: PASSWORD, port: '9' }),
    3,
    'the database cannot be reached (connect ECONNREFUSED',
  );
});

test('a server that hangs up cannot be reached', async () => {
  const address = silent.address();
  const port = typeof address === 'object' && address !== null ? String(address.port) : '';
  await expectFailure(urlWith({ password: PASSWORD, port }), 3, 'the database cannot be reached');
});

test('an unknown database is to be created', async () => {
  await expectFailure(
    urlWith({ pathname: '/absent' }),
    3,
    'the database named in DATABASE_URL does not exist; create it',
  );
});

test('a URL that cannot be read is wrong usage, and not repeated', async () => {
  const written = encodeURIComponent(PASSWORD);
  for (const url of [`postgres://me:${written}@127.0.0.1:port/nights`, `mysql://me:${written}@127.0.0.1/nights`])
    await expectFailure(url, 2, 'DATABASE_URL is not a URL of the form postgres://');
});
