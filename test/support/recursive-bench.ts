import type Anthropic from '@anthropic-ai/sdk';
import type { Agent } from '../../src/agent/define-agent.ts';
import type { CitedAnswer } from '../../src/agent/recursive/gate.ts';
import { recursiveAgent } from '../../src/agent/recursive/recursive-agent.ts';
import type { AttemptResult } from '../../src/worker/run-attempt.ts';
import { loadTestBatch, type RunningAttempt, type TaskRow, type TestWorker, taskOf } from './attempts.ts';
import { type JournalBench, journalBench } from './journal-bench.ts';
import { type Exchange, messageOf } from './scripted-provider.ts';

/** The body of a request as it was sent. */
export type SentRequest = Anthropic.MessageCreateParamsNonStreaming;
/** What a model says: code in a block of its own, or a message as it stands, with whatever else is to differ in it. */
export type Saying = string | { message: string; differing?: object };
/** What the root model says in each turn of a run, by the question that the run answers. */
export type RootScript = Record<string, readonly Saying[]>;

/** The question of a task that does not say otherwise. */
export const QUESTION = 'What is it?';
/** The context of a task that does not say otherwise. */
export const TEXT = 'The sun rises in the east. The moon is made of rock.';
/** Code that answers from `TEXT`. */
export const ANSWER = 'answer({ text: "rock", citations: [{ document: "context", quote: "made of rock" }] });';
/** What that answer becomes. */
export const ANSWERED: CitedAnswer = { text: 'rock', citations: [{ document: 'context', quote: 'made of rock' }] };

export interface RecursiveTaskOptions {
  options?: Record<string, string>;
  input?: { question?: string; context?: string; document?: string };
  maxAttempts?: number;
}

/** A bench on which the real agent `recursive` runs against root and sub-models that a test scripts. */
export class RecursiveBench {
  readonly journal: JournalBench;

  constructor(journal: JournalBench) {
    this.journal = journal;
  }

  /** Loads a batch of one task for the agent. */
  load({ options = {}, input = {}, maxAttempts = 3 }: RecursiveTaskOptions = {}): Promise<string> {
    const context = input.document === undefined && options.documents === undefined ? { context: TEXT } : {};
    return loadTestBatch(this.journal.db, {
      agent: 'recursive',
      agentOptions: options,
      inputs: [{ question: QUESTION, ...context, ...input }],
      maxAttempts,
    });
  }

  /** Claims the batch's next task and begins an attempt. */
  async start(batch: string, worker?: TestWorker, agent: Agent = agentRecursive): Promise<RunningAttempt> {
    const by = worker ?? (await this.journal.workers.add());
    const { task, lease } = await by.claim(batch);
    return by.runAgent(task, lease, agent);
  }

  /** An attempt from its claim to its end. */
  async attempt(batch: string, worker?: TestWorker, agent?: Agent): Promise<AttemptResult> {
    return (await this.start(batch, worker, agent)).result;
  }

  /** One attempt of a task of its own, in which the root model goes by `turns`. */
  async run(
    turns: readonly Saying[],
    task: RecursiveTaskOptions = {},
  ): Promise<{ batch: string; result: AttemptResult; task: TaskRow }> {
    this.play({ [task.input?.question ?? QUESTION]: turns });
    const batch = await this.load(task);
    const result = await this.attempt(batch);
    return { batch, result, task: await taskOf(this.journal.db, batch) };
  }

  /** From now on the provider plays root models from a script, and `sub` answers the other calls. */
  play(root: RootScript, sub: (exchange: Exchange) => void | Promise<void> = (exchange) => exchange.message()): void {
    this.journal.provider.script = (exchange) =>
      isRoot(exchange) ? say(exchange, sayingOf(exchange, root)) : sub(exchange);
  }

  /** Bodies of the requests to root models, in order. */
  get rootRequests(): SentRequest[] {
    return this.journal.provider.exchanges.filter(isRoot).map(bodyOf);
  }

  /** Bodies of the sub-calls, in order. */
  get subRequests(): SentRequest[] {
    return this.journal.provider.exchanges.filter((exchange) => !isRoot(exchange)).map(bodyOf);
  }

  /** Prompts of the sub-calls, in order. */
  get prompts(): unknown[] {
    return this.subRequests.map(({ messages }) => messages[0]?.content);
  }

  /** What the root model was told after each turn of the task's own run. */
  get told(): string[] {
    const requests = this.rootRequests.filter((request) => questionOf(request) === questionOf(this.rootRequests[0]));
    return requests.slice(1).map(({ messages }) => textOf(messages.at(-1)?.content));
  }

  /** Requests that were sent more than once, byte for byte. */
  get repeated(): string[] {
    const bodies = this.journal.provider.exchanges.map(({ body }) => body.toString());
    return bodies.filter((body, index) => bodies.indexOf(body) !== index);
  }
}

/** The agent under test, in the form in which the worker has it. */
export const agentRecursive = recursiveAgent as unknown as Agent;

/** Sets up a bench for the calling test file. */
export function recursiveBench(): RecursiveBench {
  return new RecursiveBench(journalBench());
}

/** Whether a request asks a root model. */
export function isRoot(exchange: Exchange): boolean {
  return textOf(bodyOf(exchange).system).includes('JavaScript REPL');
}

export function bodyOf(exchange: Exchange): SentRequest {
  return JSON.parse(exchange.body.toString());
}

/** Answers a request with what a model says. */
export function say(exchange: Exchange, saying: Saying): void {
  const { message, differing = {} } = typeof saying === 'string' ? { message: inBlock(saying) } : saying;
  const body = JSON.stringify({ ...messageOf(exchange.number, message), ...differing });
  exchange.respond(200, body, { 'content-type': 'application/json' });
}

/** A message of the root model with one block of code. */
export function inBlock(code: string): string {
  return `I go on.\n\n\`\`\`js\n${code}\n\`\`\``;
}

function sayingOf(exchange: Exchange, root: RootScript): Saying {
  const request = bodyOf(exchange);
  const turn = request.messages.filter(({ role }) => role === 'assistant').length;
  return root[questionOf(request)]?.[turn] ?? 'undefined';
}

function questionOf(request: SentRequest | undefined): string {
  return /^<question>(.*?)<\/question>/s.exec(textOf(request?.messages[0]?.content))?.[1] ?? '';
}

function textOf(content: string | readonly object[] | undefined): string {
  if (content === undefined || typeof content === 'string') return content ?? '';
  return content.map((block) => ('text' in block ? block.text : '')).join('');
}
