import { createHash } from 'node:crypto';
import type { QuickJSContext, QuickJSDeferredPromise, QuickJSHandle } from 'quickjs-emscripten-core';
import { errorText, notRun, tooManySteps } from './failure-text.ts';
import { fold, type GuestContext, wordsOf } from './guest-context.ts';
import type { PreludeConfig } from './prelude.ts';
import type { CallOut, SandboxSettings, TurnReport } from './protocol.ts';
import { type Callbacks, OutOfMemory, QuickJs } from './quickjs.ts';
import { CodeError, rewriteBlock, TOO_DEEP } from './rewrite.ts';
import { TurnOutput } from './turn-output.ts';

/** What a guest needs of its thread. */
export interface GuestHost {
  /** Runs `action`, in which the guest may run, with the guest's clock. */
  enter<T>(nowMs: number, action: () => T): T;
  /** Calls that the guest has made in one go. */
  calls(calls: CallOut[]): void;
  ended(report: TurnReport): void;
}

/** Ticks of one turn: QuickJS gives one in about 10,000 steps. A count, not a time, so that code is stopped at the same place on every machine. */
const MAX_TICKS = 10_000;
/** Ticks for writing down the state, beside those of the turn. */
const STATE_TICKS = 2_000;
/** Jobs of promises that count as one tick: going from one to the next takes more time than its few steps. */
const JOBS_A_TICK = 100;
/** Jobs that promises may still run once the code has come to its end. */
const LAST_JOBS = 10_000;
/** Jobs that run in a row while calls are open: a loop over awaits that an earlier turn has left behind must not keep their answers out. */
const JOBS_BESIDE_CALLS = 1_000;
const MAX_PROMPT_CHARS = 600_000;
const MAX_STATE_CHARS = 1_000_000;
/** Text that the host goes through for the guest: this many characters count as one tick. */
const HOST_CHARS_A_TICK = 50_000;
/** Characters sent that count as one tick, and every call counts as one at least: they wait in the memory of the whole process. */
const CALL_CHARS_A_TICK = 5_000;

/** One turn under way. */
interface Turn {
  number: number;
  blocks: string[];
  started: number;
  main: QuickJSHandle | undefined;
  failure: string | undefined;
  waitedForOthers: boolean;
}

/** One sandbox: a QuickJS of its own with a REPL in it. Whatever throws out of it has broken it. */
export class Guest {
  readonly #quickJs: QuickJs;
  readonly #context: QuickJSContext;
  readonly #settings: SandboxSettings;
  readonly #texts: GuestContext;
  readonly #host: GuestHost;
  readonly #calls = new Map<number, QuickJSDeferredPromise>();
  readonly #inside: Record<'show' | 'explain' | 'float' | 'state', QuickJSHandle>;
  #output: TurnOutput;
  #answer: string | undefined;
  #turn: Turn | undefined;
  #lastCall = 0;
  #issued: CallOut[] = [];
  #ticks = 0;
  #maxTicks = MAX_TICKS;
  /** While an answer is handed in, which runs no code of the guest's, nothing is stopped, however much it has spent. */
  #isSettling = false;

  /** Opens a sandbox. */
  static async open(settings: SandboxSettings, texts: GuestContext, host: GuestHost): Promise<Guest> {
    return new Guest(await QuickJs.take(texts.chars), settings, texts, host);
  }

  private constructor(quickJs: QuickJs, settings: SandboxSettings, texts: GuestContext, host: GuestHost) {
    this.#quickJs = quickJs;
    this.#context = quickJs.context;
    this.#settings = settings;
    this.#texts = texts;
    this.#host = host;
    this.#output = new TurnOutput(settings.maxOutputChars);
    quickJs.serve(this.#callbacks());
    this.#inside = host.enter(settings.nowMs, () => this.#runPrelude());
  }

  /** Lets go of a sandbox that nothing has broken. */
  close(): void {
    this.#quickJs.giveBack();
  }

  /** Runs the blocks of one turn, one after the other; `host.ended` is told when they and all they have called have come to their end. */
  run(turn: number, blocks: string[]): void {
    this.#turn = { number: turn, blocks, started: 0, main: undefined, failure: undefined, waitedForOthers: false };
    this.#ticks = 0;
    this.#maxTicks = MAX_TICKS;
    this.#quickJs.takeBackReserve();
    this.#goOn();
  }

  /** A call has come to its end: with its answer, or (not `ok`) with a message why not. */
  settle(call: number, ok: boolean, value: string): void {
    const deferred = this.#calls.get(call);
    if (deferred === undefined) return;
    this.#calls.delete(call);
    this.#goOn(() => {
      this.#isSettling = true;
      if (ok) this.#quickJs.newText(value).consume((text) => deferred.resolve(text));
      else {
        this.#output.write(`[sub-call ${call}: ${value}]\n`);
        this.#context.newError(value).consume((error) => deferred.reject(error));
      }
      this.#isSettling = false;
      deferred.dispose();
    });
  }

  get #isSpent(): boolean {
    return this.#ticks > this.#maxTicks;
  }

  /** Goes on as far as it goes without an answer from outside, and then says what is asked for outside, or that the turn has ended. */
  #goOn(before?: () => void): void {
    const report = this.#host.enter(this.#settings.nowMs, () => {
      this.#quickJs.requireRoom();
      before?.();
      return this.#advance();
    });
    const issued = this.#issued.splice(0);
    if (issued.length > 0) this.#host.calls(issued);
    if (report) this.#host.ended(report);
  }

  /** Nothing in here waits: what the guest sees depends on the order of answers alone. */
  #advance(): TurnReport | undefined {
    const turn = this.#turn;
    if (turn === undefined) return undefined;
    for (;;) {
      this.#runJobs(turn);
      if (turn.main !== undefined) {
        if (!this.#conclude(turn, turn.main)) return undefined;
      } else if (turn.failure === undefined && turn.started < turn.blocks.length) {
        this.#start(turn);
      } else if (this.#calls.size > 0) {
        this.#noteOthers(turn);
        return undefined;
      } else {
        return this.#end(turn);
      }
    }
  }

  /** Runs what promises have made due. Once the code has ended or waits for calls, what never ends by itself must not hold up the turn. */
  #runJobs(turn: Turn): void {
    const most = () => (turn.main === undefined ? LAST_JOBS : this.#calls.size > 0 ? JOBS_BESIDE_CALLS : Infinity);
    for (let run = 0; run < most() && !this.#isSpent && this.#quickJs.runtime.hasPendingJob(); run += 1) {
      const result = this.#quickJs.runtime.executePendingJobs(1);
      if (run % JOBS_A_TICK === 0) this.#ticks += 1;
      if (result.error) result.error.dispose(); // stopped, or out of memory: both show in what is awaited
      if (turn.main !== undefined && this.#context.getPromiseState(turn.main).type !== 'pending') return;
    }
  }

  #start(turn: Turn): void {
    const code = turn.blocks[turn.started] ?? '';
    turn.started += 1;
    const suffix = turn.blocks.length > 1 ? `-${turn.started}` : '';
    try {
      const evaluated = this.#context.evalCode(rewriteBlock(code), `turn-${turn.number}${suffix}.js`);
      if (evaluated.error) {
        const failure = this.#explain(evaluated.error);
        turn.failure = failure.startsWith('SyntaxError: stack overflow') ? notRun(TOO_DEEP) : failure;
        return;
      }
      const called = evaluated.value.consume((block) =>
        this.#context.callFunction(block, this.#context.undefined, this.#inside.float),
      );
      if (called.error) turn.failure = this.#explain(called.error);
      else turn.main = called.value;
    } catch (error) {
      if (!(error instanceof CodeError)) throw error;
      turn.failure = notRun(error.message);
    }
  }

  /** Looks whether the running block has come to an end; false while it waits for calls. */
  #conclude(turn: Turn, main: QuickJSHandle): boolean {
    const state = this.#context.getPromiseState(main);
    if (state.type === 'pending') {
      if (this.#isSpent) turn.failure = tooManySteps(MAX_TICKS);
      else if (this.#calls.size > 0) return false;
      else turn.failure = 'The code awaits a promise that nothing will ever settle.';
    } else if (state.type === 'rejected') {
      turn.failure = this.#explain(state.error);
    } else {
      this.#call(this.#inside.show, state.value);
      state.value.dispose();
    }
    main.dispose();
    turn.main = undefined;
    return true;
  }

  #noteOthers(turn: Turn): void {
    if (turn.waitedForOthers) return;
    turn.waitedForOthers = true;
    const calls = this.#calls.size === 1 ? '1 sub-call was' : `${this.#calls.size} sub-calls were`;
    this.#output.write(`[${calls} not awaited; this turn waits for them]\n`);
  }

  #end(turn: Turn): TurnReport {
    if (turn.failure === undefined && this.#isSpent) turn.failure = tooManySteps(MAX_TICKS);
    this.#turn = undefined; // the guest's traps may run once more while its state is written down; they reach nobody
    const output = this.#output.toString();
    const report: TurnReport = {
      output,
      failure: turn.failure,
      answer: this.#answer,
      state: digest([this.#state(), output, turn.failure ?? '', this.#answer ?? '']),
    };
    this.#answer = undefined;
    this.#output = new TurnOutput(this.#settings.maxOutputChars);
    return report;
  }

  #state(): string {
    this.#ticks = 0;
    this.#maxTicks = STATE_TICKS;
    const result = this.#context.callFunction(this.#inside.state, this.#context.undefined);
    if (result.error) {
      result.error.dispose();
      return 'the state cannot be written down';
    }
    return result.value.consume((text) => this.#quickJs.textOf(text));
  }

  #call(inside: QuickJSHandle, value: QuickJSHandle): void {
    const result = this.#context.callFunction(inside, this.#context.undefined, value);
    if (result.error) this.#output.write(`[the value cannot be shown: ${this.#explain(result.error)}]\n`);
    else result.value.dispose();
  }

  /** What went wrong, with the lines of the guest's own code; disposes of the error. */
  #explain(error: QuickJSHandle): string {
    if (this.#isSpent) {
      error.dispose();
      return tooManySteps(MAX_TICKS);
    }
    const result = error.consume((error) =>
      this.#context.callFunction(this.#inside.explain, this.#context.undefined, error),
    );
    if (result.error) {
      result.error.dispose();
      return this.#isSpent ? tooManySteps(MAX_TICKS) : 'an error that cannot be read';
    }
    const [message, stack] = JSON.parse(result.value.consume((text) => this.#context.getString(text))) as [
      string,
      string,
    ];
    return errorText(message, stack);
  }

  /** The host's work is not stopped half-way, so it is counted beforehand. */
  #countHostWork(chars: number): void {
    this.#ticks += Math.ceil(chars / HOST_CHARS_A_TICK);
    if (this.#isSpent) throw new Error(tooManySteps(MAX_TICKS));
  }

  #runPrelude(): Record<'show' | 'explain' | 'float' | 'state', QuickJSHandle> {
    const context = this.#context;
    const config: PreludeConfig = {
      names: this.#texts.names,
      isText: this.#texts.isText,
      canRecurse: this.#settings.canRecurse,
      seed: seedOf(this.#settings.seed),
      maxWriteChars: 2 * this.#settings.maxOutputChars,
      maxPromptChars: MAX_PROMPT_CHARS,
      maxStateChars: MAX_STATE_CHARS,
    };
    const { prelude, host } = this.#quickJs;
    const settings = context.unwrapResult(context.evalCode(`(${JSON.stringify(config)})`, 'config.js'));
    const inside = context.unwrapResult(context.callFunction(prelude, context.undefined, host, settings));
    return {
      show: context.getProp(inside, 'show'),
      explain: context.getProp(inside, 'explain'),
      float: context.getProp(inside, 'float'),
      state: context.getProp(inside, 'state'),
    };
  }

  #callbacks(): Callbacks {
    return {
      shouldStop: () => {
        this.#ticks += 1;
        return this.#isSpent && !this.#isSettling;
      },
      write: (head, skipped, tail) => this.#output.write(head, skipped, tail),
      text: (index) => {
        const text = this.#texts.text(index);
        this.#countHostWork(text.length);
        return text;
      },
      fold: (text) => {
        this.#countHostWork(text.length);
        return fold(text);
      },
      search: (asked, limit) => {
        this.#countHostWork(asked.length);
        const words = wordsOf(asked);
        this.#countHostWork(this.#texts.chars * Math.max(1, words.length));
        return JSON.stringify(this.#texts.search(words, limit));
      },
      answer: (json) => {
        this.#answer = json;
      },
      call: (kind, payload) => this.#issue(kind, payload),
    };
  }

  #issue(kind: string, payload: string): QuickJSDeferredPromise {
    if (this.#turn === undefined) throw new Error('no sub-call can be made between two turns');
    this.#countHostWork(payload.length * (HOST_CHARS_A_TICK / CALL_CHARS_A_TICK));
    const deferred = this.#context.newPromise();
    if (this.#context.getPromiseState(deferred.handle).type !== 'pending')
      throw new OutOfMemory('the memory of the sandbox is used up');
    this.#lastCall += 1;
    this.#calls.set(this.#lastCall, deferred);
    this.#issued.push({ call: this.#lastCall, kind: kind === 'recurse' ? 'recurse' : 'llm', payload });
    return deferred;
  }
}

function seedOf(hex: string): PreludeConfig['seed'] {
  const bytes = Buffer.from(hex.padEnd(32, '0'), 'hex');
  return [bytes.readUInt32BE(0), bytes.readUInt32BE(4), bytes.readUInt32BE(8), bytes.readUInt32BE(12)];
}

function digest(parts: string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex');
}
