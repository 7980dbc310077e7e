import { createHash } from 'node:crypto';
import type Anthropic from '@anthropic-ai/sdk';
import { z } from 'zod';
import { messageOf } from '../../errors.ts';
import { RunLost } from '../run-lost.ts';
import { type Context, packContext } from '../sandbox/pack-context.ts';
import type { CallKind, TurnReport } from '../sandbox/protocol.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { sandboxPool } from '../sandbox/sandbox-pool.ts';
import type { Task } from '../task.ts';
import { ask, type Reply } from './ask.ts';
import { codeBlocks } from './code-blocks.ts';
import { type CitedAnswer, checkAnswer, citedAnswer } from './gate.ts';
import type { RecursiveOptions } from './options.ts';
import { firstMessage, systemPrompt } from './system-prompt.ts';
import { LimitReached, type TaskLimits } from './task-limits.ts';
import { nothingRunMessage, type Standing, turnMessage } from './turn-message.ts';

type RecursiveTask = Task<unknown, RecursiveOptions>;

/** What the runs of one task share, however deep they are. */
export interface SharedByRuns {
  limits: TaskLimits;
  /** Ends the whole task from inside a call: for what no guest may catch. */
  fail(error: unknown): void;
}

/** The question of a nested run, as the sandbox gives it. */
const nested = z.object({
  question: z.string(),
  context: z.union([z.string(), z.array(z.object({ name: z.string(), text: z.string() }))]),
});

/** How often an answer may meet the gate: the first refusal is told to the root model. */
const GATE_TRIES = 2;

/** One root model with its REPL on one context: the task's own, or one nested in it on a slice. */
export class ReplRun {
  readonly #task: RecursiveTask;
  readonly #context: Context;
  readonly #depth: number;
  readonly #shared: SharedByRuns;
  readonly #messages: Anthropic.MessageParam[];
  readonly #sandbox: Sandbox;
  #turn = 0;
  /** The task as the calls of the current turn see it: in a scope of their own. */
  #turnTask: RecursiveTask;
  #refused = 0;
  #nested = 0;
  #subcalls = 0;

  /** `depth` is 0 for the task's own run. */
  constructor(task: RecursiveTask, question: string, context: Context, depth: number, shared: SharedByRuns) {
    this.#task = task;
    this.#turnTask = task;
    this.#context = context;
    this.#depth = depth;
    this.#shared = shared;
    this.#messages = [{ role: 'user', content: firstMessage(question, context) }];
    const packed = packContext(context);
    task.checkpoint('context', packed.digest);
    const settings = {
      seed: createHash('sha256').update(`${task.key} ${depth} ${question}`).digest('hex'),
      nowMs: task.startedAt.getTime(),
      maxOutputChars: task.options.max_output_chars,
      canRecurse: this.#canRecurse,
    };
    this.#sandbox = sandboxPool().open(settings, packed, (kind, payload) => this.#call(kind, payload));
    task.signal.addEventListener('abort', () => this.#sandbox.close(), { once: true });
  }

  /** Goes on turn by turn to an answer that passes the gate. Throws where limits, gate or sandbox end it without one. */
  async answer(): Promise<CitedAnswer> {
    const { max_turns, max_tokens } = this.#task.options;
    try {
      while (this.#turn < max_turns) {
        this.#turn += 1;
        this.#turnTask = await this.#task.scope(`turn ${this.#turn}`, (task) => task);
        const reply = await this.#askRoot();
        const blocks = reply.isCut ? [] : codeBlocks(reply.text);
        if (blocks.length === 0) {
          this.#tell(nothingRunMessage(reply.isCut, max_tokens, this.#standing));
          continue;
        }
        const report = await this.#sandbox.run(this.#turn, blocks);
        this.#task.checkpoint(`turn ${this.#turn}`, report.state);
        const answer = report.failure === undefined ? answerOf(report) : undefined;
        const problems = answer ? checkAnswer(answer, this.#context) : [];
        if (answer && problems.length === 0) return answer;
        if (problems.length > 0) this.#countRefusal(problems);
        this.#tell(turnMessage(report, problems, this.#standing));
      }
    } finally {
      this.#sandbox.close();
    }
    throw new Error(`there was no answer after ${max_turns} turns (option max_turns)`);
  }

  async #askRoot(): Promise<Reply> {
    const { options } = this.#task;
    const cache = options.cache === 'off' ? undefined : ({ type: 'ephemeral', ttl: options.cache } as const);
    const reply = await this.#counted(() =>
      ask(this.#task, this.#shared.limits, {
        model: this.#depth === 0 ? options.root_model : options.sub_model,
        max_tokens: options.max_tokens,
        system: [
          { type: 'text', text: systemPrompt(options, this.#canRecurse), ...(cache && { cache_control: cache }) },
        ],
        messages: cache ? cachedUpToLast(this.#messages, cache) : this.#messages,
        ...(options.temperature !== undefined && { temperature: options.temperature }),
        ...(options.effort && this.#depth === 0 && { output_config: { effort: options.effort } }),
      }),
    );
    // the provider refuses a message without content, and an empty one says nothing anyway
    this.#messages.push({ role: 'assistant', content: reply.content.length > 0 ? reply.content : '(nothing)' });
    return reply;
  }

  /** A nested run's own turns are sub-calls of the task. */
  async #counted<T>(call: () => Promise<T>): Promise<T> {
    if (this.#depth === 0) return call();
    await this.#takeSubcall(this.#task);
    return this.#shared.limits.concurrently(call);
  }

  /** A refusal is a step, so that on replay the code is told at the same place among the answers of other calls. */
  async #takeSubcall(task: RecursiveTask): Promise<void> {
    try {
      this.#shared.limits.takeSubcall();
    } catch (error) {
      await task.step('sub-call refused', () => null);
      throw error;
    }
    this.#subcalls += 1;
  }

  #tell(content: string): void {
    this.#messages.push({ role: 'user', content });
  }

  #countRefusal(problems: string[]): void {
    this.#refused += 1;
    if (this.#refused >= GATE_TRIES) throw new Error(`the answer does not pass the gate: ${problems.join('; ')}`);
  }

  get #canRecurse(): boolean {
    return this.#depth + 1 < this.#task.options.max_depth;
  }

  /** A nested run is told of its own sub-calls: how far others have got meanwhile would differ on replay. */
  get #standing(): Standing {
    const { max_turns, max_subcalls } = this.#task.options;
    const used =
      this.#depth === 0
        ? { subcalls: this.#shared.limits.subcalls, maxSubcalls: max_subcalls }
        : { subcalls: this.#subcalls, maxSubcalls: undefined };
    return { turn: this.#turn, maxTurns: max_turns, ...used };
  }

  /** A call out of the sandbox. What it throws is told to the code there; what no code may catch ends the task instead. */
  async #call(kind: CallKind, payload: string): Promise<string> {
    try {
      return await (kind === 'llm'
        ? this.#askSubModel(this.#turnTask, payload)
        : this.#recurse(this.#turnTask, payload));
    } catch (error) {
      if (isFatal(error)) this.#shared.fail(error);
      throw error;
    }
  }

  async #askSubModel(task: RecursiveTask, prompt: string): Promise<string> {
    const { sub_model, max_subcall_tokens, temperature } = task.options;
    const { limits } = this.#shared;
    await this.#takeSubcall(task);
    const reply = await limits.concurrently(() =>
      ask(task, limits, {
        model: sub_model,
        max_tokens: max_subcall_tokens,
        messages: [{ role: 'user', content: prompt }],
        ...(temperature !== undefined && { temperature }),
      }),
    );
    return reply.isCut ? `${reply.text}\n[cut off at ${max_subcall_tokens} tokens]` : reply.text;
  }

  /** A run on a slice. Its end is a step, so that on replay it comes at the same place among the answers of other calls. */
  async #recurse(task: RecursiveTask, payload: string): Promise<string> {
    const { question, context } = nested.parse(JSON.parse(payload));
    this.#nested += 1;
    const name = `recurse ${this.#nested}`;
    const end = await task.scope(name, async (task) => {
      try {
        return { answer: await new ReplRun(task, question, context, this.#depth + 1, this.#shared).answer() };
      } catch (error) {
        return { error };
      }
    });
    if ('error' in end && isFatal(end.error)) throw end.error;
    await task.step(`${name} ended`, () => null);
    if ('error' in end) throw new Error(`${name} failed: ${messageOf(end.error)}`);
    return JSON.stringify(end.answer);
  }
}

/** What no code in a sandbox may catch: the task's money, and sandboxes that are gone. */
function isFatal(error: unknown): boolean {
  return error instanceof LimitReached || error instanceof RunLost;
}

function answerOf({ answer }: TurnReport): CitedAnswer | undefined {
  return answer === undefined ? undefined : citedAnswer.parse(JSON.parse(answer));
}

/** The conversation up to now stays as it is in the next turn, so the provider may keep it to its end. */
function cachedUpToLast(
  messages: Anthropic.MessageParam[],
  cache: Anthropic.CacheControlEphemeral,
): Anthropic.MessageParam[] {
  const last = messages.at(-1);
  if (typeof last?.content !== 'string') return messages;
  const content: Anthropic.TextBlockParam[] = [{ type: 'text', text: last.content, cache_control: cache }];
  return [...messages.slice(0, -1), { role: last.role, content }];
}
