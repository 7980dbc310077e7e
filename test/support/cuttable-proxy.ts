import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A way to the database that a test can cut, as a network does: what the server is doing then goes on, and nobody hears of it. */
export interface CuttableProxy {
  url: string;
  /** Breaks every connection; new ones are accepted. */
  cut(): void;
}

/** Starts one for the running test. */
export async function startProxy(databaseUrl: string): Promise<CuttableProxy> {
  const { hostname, port } = new URL(databaseUrl);
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    clients.add(client);
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.once('close', () => {
      clients.delete(client);
      upstream.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const client of clients) client.destroy();
  };
  onTestFinished(() => {
    cut();
    server.close();
  });
  const url = new URL(databaseUrl);
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, cut };
}
