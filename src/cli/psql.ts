import { spawn } from 'node:child_process';

/** Runs psql with `args` on the database at `url`, with this terminal as its own; its exit code. */
export async function runPsql(url: string, args: string[]): Promise<number> {
  // The password goes by the environment: arguments can be read by every user of the machine.
  const address = new URL(url);
  const password = decodeURIComponent(address.password);
  address.password = '';
  const child = spawn('psql', ['-d', address.href, ...args], {
    stdio: 'inherit',
    env: { ...process.env, ...(password === '' ? {} : { PGPASSWORD: password }) },
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
