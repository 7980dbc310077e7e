import { createServer } from 'node:net';
import { until } from './until.ts';

/**
 * Stands where a database has gone away: takes every connection and closes it. Resolves, gone itself, when `enough` holds of the application
 * names of those who have tried.
 */
export async function turnAway(port: number, what: string, enough: (names: string[]) => boolean): Promise<void> {
  const names: string[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (startup) => {
      names.push(/application_name\0([^\0]*)/.exec(startup.toString('latin1'))?.[1] ?? '');
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await until(what, () => enough(names));
  await new Promise((resolve) => server.close(resolve));
}
