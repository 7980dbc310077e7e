import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Agent, request } from 'undici';

const ANSWER_BYTES = 4096;

/** A provider without latency in this process: every request gets the same answer of 4 KB, and pays for `usage`. */
export async function startProvider(
  usage = { input_tokens: 7200, output_tokens: 1000 },
): Promise<{ url: string; close(): void }> {
  const body = JSON.stringify({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-haiku-4-5',
    content: [{ type: 'text', text: 'x'.repeat(ANSWER_BYTES - 240) }],
    stop_reason: 'end_turn',
    usage,
  });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const server = createServer((incoming, response) => {
    incoming.resume().once('end', () => response.writeHead(200, headers).end(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.closeAllConnections() ?? server.close() };
}

const dispatcher = new Agent();

/** The body of the `n`-th request of a task: no two are the same. */
export function question(task: string, n: number): string {
  return JSON.stringify({
    model: 'claude-haiku-4-5',
    max_tokens: 100,
    messages: [{ role: 'user', content: `${task} ${n}` }],
  });
}

/** The call that the peers make: the leanest client there is. */
export async function callProvider(url: string, task: string, n: number): Promise<string> {
  const { body } = await request(`${url}/v1/messages`, {
    dispatcher,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: question(task, n),
  });
  return body.text();
}
