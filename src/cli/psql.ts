import { spawn } from 'node:child_process';
import { parseDatabaseUrl } from '../postgres/parse-url.ts';
import { runSmallPsql } from './small-psql.ts';

/**
 * Runs psql with `args` on the database at `url`, with this terminal as its own, or the small psql where none is installed. Returns the
 * exit code.
 */
export async function runPsql(url: string, args: string[]): Promise<number> {
  try {
    return await runInstalledPsql(url, args);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return runSmallPsql(url, args);
    throw error;
  }
}

function runInstalledPsql(url: string, args: string[]): Promise<number> {
  // The password goes by the environment: arguments can be read by every user of the machine.
  const address = parseDatabaseUrl(url);
  const password = decodeURIComponent(address.password);
  address.password = '';
  const child = spawn('psql', ['-d', address.href, ...args], {
    stdio: 'inherit',
    env: {
      ...process.env,
      ...(password === '' ? {} : { PGPASSWORD: password }),
      PGOPTIONS: `${process.env.PGOPTIONS ?? ''} -c search_path=madrugada,public`.trim(),
    },
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
