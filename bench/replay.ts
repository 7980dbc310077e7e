import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Agent } from '../src/agent/define-agent.ts';
import { recursiveAgent } from '../src/agent/recursive/recursive-agent.ts';
import { loadBatch } from '../src/batch/load-batch.ts';
import { claimTask } from '../src/lease/claim.ts';
import { openClient } from '../src/postgres/connect.ts';
import { type AttemptResult, runAttempt } from '../src/worker/run-attempt.ts';
import type { Figure } from './figure.ts';
import { median } from './measure.ts';
import { type OpenJournal, openJournal } from './open-journal.ts';

const TURNS = 8;
const SUBCALLS_A_TURN = 24;
const CALLS = TURNS * (1 + SUBCALLS_A_TURN);
const ANSWER_CHARS = 4000;
const ATTEMPTS = 24;
const WARM_UP = 4;
const TARGET_MS = 300;

/** Refuses every answer, so that the next attempt replays it all: what is measured ends with that, at the last moment. */
const refusing: Agent = {
  ...(recursiveAgent as unknown as Agent),
  check: () => {
    throw new Error('refused, to be replayed');
  },
};

/** Time of an attempt, from its claim to its end, that replays a question of 200 calls. */
export async function measureReplay(url: string, folder: string): Promise<Figure[]> {
  const provider = await startRootProvider();
  const journal = await openJournal(url);
  try {
    const batchKey = await loadQuestion(url, folder);
    const first = await attempt(journal, batchKey, provider.url);
    if (first.result.replayedCalls !== 0) throw new Error('the first attempt has replayed calls');
    const times: number[] = [];
    for (let number = 2; number <= ATTEMPTS; number += 1) {
      const { ms, result } = await attempt(journal, batchKey, provider.url);
      if (result.replayedCalls !== CALLS) throw new Error(`${result.replayedCalls} calls replayed: ${result.message}`);
      if (number > 1 + WARM_UP) times.push(ms);
    }
    return [
      { what: `warm replay of a question of ${CALLS} calls`, unit: 'ms', value: median(times), target: TARGET_MS },
      { what: '  the same live, once', unit: 'ms', value: first.ms },
    ];
  } finally {
    await journal.close();
    provider.close();
  }
}

async function attempt(
  { env, pool, workerId }: OpenJournal,
  batchKey: string,
  baseUrl: string,
): Promise<{ ms: number; result: AttemptResult }> {
  const startedAt = performance.now();
  const slot = 'bench-replay';
  const task = await claimTask(pool, { batchKey, slot, workerId, agentSha256: 'bench', after: 0 });
  if (task === undefined) throw new Error('there is no task to claim');
  const lease = { batchKey, taskId: task.taskId, key: task.key, slot, workerId, token: task.leaseToken };
  const hooks = { onSession: () => undefined, onActivity: () => undefined };
  const access = { apiKey: 'dummy', baseUrl };
  const result = await runAttempt(env, { agent: refusing, sha256: 'bench' }, task, lease, access, hooks);
  return { ms: performance.now() - startedAt, result };
}

async function loadQuestion(url: string, folder: string): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'bench load' });
  const agentOptions = { documents: folder, max_subcalls: String(TURNS * SUBCALLS_A_TURN) };
  const batch = { id: 'replay', version: 'v1', agent: 'recursive', agentOptions, maxAttempts: ATTEMPTS + 1 };
  async function* tasks() {
    yield { position: 1, item: '1', inputJson: JSON.stringify({ question: 'Which licence is the longest?' }) };
  }
  try {
    return (await loadBatch(client, { ...batch, leaseSeconds: 600, doubtPolicy: 'pay_again' }, tasks())).batchKey;
  } finally {
    await client.end();
  }
}

/** A provider whose root model makes the same number of sub-calls in every turn, and answers in the last. */
async function startRootProvider(): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request, response) => {
    const { system, messages } = (await json(request)) as { system?: unknown; messages: { role: string }[] };
    const turn = messages.filter(({ role }) => role === 'assistant').length + 1;
    const text = system === undefined ? 'x'.repeat(ANSWER_CHARS) : `Reading.\n\n\`\`\`js\n${program(turn)}\n\`\`\``;
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(message(text)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.closeAllConnections() ?? server.close() };
}

function program(turn: number): string {
  const ending =
    turn < TURNS ? '' : 'answer({ text: "four years", citations: [{ document: name, quote: text.slice(0, 80) }] });';
  return `const { name, text } = context[${turn}];
const replies = await llmBatch(Array.from({ length: ${SUBCALLS_A_TURN} }, (_, n) => 'Part ' + n + ': ' + text.slice(n * 50, n * 50 + 4000)));
print(replies.length, replies[0].slice(0, 100));
${ending}`;
}

function message(text: string): object {
  return {
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-haiku-4-5', stop_reason: 'end_turn' },
    content: [{ type: 'text', text }],
    usage: { input_tokens: 3000, output_tokens: 500 },
  };
}
