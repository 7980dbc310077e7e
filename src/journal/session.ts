import { wakeTask } from '../lease/finish.ts';
import { EventStreamReader } from '../provider/event-stream.ts';
import { NO_TOKENS } from '../provider/pace.ts';
import { classify, isEventStream } from '../provider/refusal.ts';
import type { Allowance } from './allowance.ts';
import { Brake } from './brake.ts';
import { dispatchCall } from './dispatch-call.ts';
import { describeDivergence, describeOtherState } from './divergence.ts';
import type { JournalEnvironment } from './environment.ts';
import { refusalInsideStep } from './inside-step.ts';
import { Issue, refusal, responseOf } from './issue.ts';
import type { Lease } from './lease.ts';
import type { LiveCall, OutgoingCall } from './live-call.ts';
import { type RecordedJournal, type RecordedResponse, readAnswer, readBody, reopenedKey } from './load-journal.ts';
import { ReleaseQueue } from './release-queue.ts';
import { Replay } from './replay.ts';
import { identify, readRequest, withOutputLimit } from './request.ts';
import { Rest } from './rest.ts';
import { isImmediate, Steps } from './steps.ts';
import { stopAutomatically } from './stop-automatically.ts';
import type { Verdict } from './verdict.ts';

/**
 * The journal of one run of an agent on one task: recorded calls are answered from it, new ones wait until every recorded one has been used
 * and are then sent (DESIGN.md section 5). It ends with the run, or earlier with a verdict, after which nothing is sent any more.
 */
export class Session {
  readonly lease: Lease;
  readonly steps: Steps;
  /** Settles when the journal ends the attempt; what the code then still waits for stays pending for ever. */
  readonly ended: Promise<Verdict>;
  replayedCalls = 0;
  /** The message of a failure that no further attempt can mend, once the code has been shown one. */
  permanentFailure: string | undefined;

  readonly #env: JournalEnvironment;
  readonly #allowance: Allowance;
  readonly #replay: Replay;
  readonly #queue: ReleaseQueue;
  readonly #rest: Rest;
  readonly #latest = new Map<string, LiveCall>();
  readonly #waiting: LiveCall[] = [];
  /** Actions that wait, like calls, until every record has been used. */
  readonly #waitingActions: (() => void)[] = [];
  readonly #reopenedActions: RecordedJournal['reopenedActions'];
  readonly #acting = new Set<Promise<unknown>>();
  /** The calls whose answers the code has got: what an action it proposes came from. */
  readonly #answered = new Set<number>();
  /** How often each request was made in this run, replayed or not, by its digest. */
  readonly #identical = new Map<string, number>();
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #onActivity: () => void;
  #lastSeq: number;
  /** Recorded results on their way to the code. */
  #deliveries = 0;
  readonly #over = new AbortController();
  readonly #brake = new Brake();
  #end: (verdict: Verdict) => void = () => undefined;

  constructor(
    env: JournalEnvironment,
    lease: Lease,
    journal: RecordedJournal,
    allowance: Allowance,
    onActivity: () => void,
  ) {
    this.lease = lease;
    this.#allowance = allowance;
    this.#env = env;
    this.#lastSeq = journal.lastSeq;
    this.#onActivity = onActivity;
    this.#reopenedActions = journal.reopenedActions;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#replay = new Replay(journal);
    this.#rest = new Rest(env.limits.restMs, () => this.#whenAtRest());
    this.#queue = new ReleaseQueue(
      (completedNo) => this.#replay.hasReissuedAllBefore(completedNo),
      () => this.#active(),
    );
    for (const call of journal.calls)
      for (const { completedNo, response } of call.results)
        this.#queue.expect(completedNo, call.aborts.size > 0, !isEventStream(response.headers));
    for (const step of journal.steps) if (!isImmediate(step.kind)) this.#queue.expect(step.completedNo, false, true);
    this.steps = new Steps(env.writer, lease, this.#replay, this.#queue, {
      isOver: () => this.#isOver,
      onIssue: () => this.#progress(),
      onEnd: () => this.#active(),
      onLost: () =>
        this.end({ kind: 'lost', message: `the lease on task ${lease.key} is no longer held by slot ${lease.slot}` }),
      onOtherState: (checkpoint, completedNo) => this.end(this.#otherState(checkpoint, completedNo)),
      track: (work) => this.#track(work),
      mayAct: (name, occurrence) => this.#mayAct(reopenedKey(name, occurrence)),
    });
  }

  /**
   * Runs one action of the task and journals what became of it, in its place among calls and steps. `perform` resolves with undefined when it
   * has ended the session; the code then waits for ever. It is waited for like a call in flight, because it may be changing something.
   */
  async action<T>(name: string, perform: () => Promise<T | undefined>): Promise<T> {
    return this.steps.run('', 'action', name, () => {
      const work = perform();
      this.#track(work);
      this.#acting.add(work);
      const over = () => this.#acting.delete(work);
      work.then(over, over);
      return work.then((outcome) => outcome ?? new Promise<never>(() => undefined));
    });
  }

  /** The numbers of the calls whose answers the code has got so far, in their order. */
  get answeredCalls(): number[] {
    return [...this.#answered].sort((a, b) => a - b);
  }

  /** The journaled fetch of one scope. Never throws for a provider's fault; rejects only when the caller's own signal aborts. */
  async fetch(scope: string, input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const request = await readRequest(input, init);
    if (this.#isOver)
      return refusal(
        'madrugada_late_call',
        `task ${this.lease.key}: this call was issued after its run had ended, and was not sent`,
      );
    const problem = refusalInsideStep('a call');
    if (problem) return refusal('madrugada_call_in_step', `task ${this.lease.key}: ${problem}`);
    request.signal?.throwIfAborted();
    const identity = identify(request);
    const key = JSON.stringify([scope, identity.sha256.toString('hex')]);
    const latest = this.#latest.get(key);
    const call =
      latest && repeats(latest, request.isRetry)
        ? latest
        : this.#newCall(scope, identity, withOutputLimit(request, this.#allowance.maxOutputTokens), latest);
    this.#latest.set(key, call);
    call.issues += 1;
    call.issue = new Issue(call.issues, request.signal, this.#over.signal, (issue) => this.#recordAbort(call, issue));
    this.#serve(call);
    this.#progress();
    return call.issue.promise;
  }

  /** The run has settled: later calls are refused. Returns the divergence of a run that came to rest with records unused (invariant 3). */
  close(): Verdict | undefined {
    if (this.#isOver) return undefined;
    this.#over.abort();
    this.#rest.stop();
    return this.#replay.hasUnused ? this.#divergence('settled', undefined) : undefined;
  }

  /** Ends the attempt from outside or inside; the first verdict counts. */
  end(verdict: Verdict): void {
    if (verdict.kind === 'stopped' || verdict.kind === 'lost') this.#brake.hold(verdict.message);
    this.#over.abort();
    this.#rest.stop();
    this.#end(verdict);
  }

  /** After a stop: what is in flight is not waited for. It is recorded as unknown, and stays in doubt. */
  cutOff(reason: string): void {
    this.#brake.cutOff(reason);
  }

  /** Waits until everything that was sent is recorded, awaited by the code or not (invariant 2). */
  async settled(): Promise<void> {
    while (this.#inFlight.size > 0) {
      this.#env.writer.flush();
      await Promise.allSettled(this.#inFlight);
    }
  }

  /** Waits until no action is under way any more: its task is not given back while something outside may be changing. */
  async actionsSettled(): Promise<void> {
    while (this.#acting.size > 0) await Promise.allSettled(this.#acting);
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Aborts when the run is over, however it ended: what it holds outside of the journal is then to be let go. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  get hasCallsInFlight(): boolean {
    return this.#inFlight.size > 0;
  }

  #newCall(
    scope: string,
    identity: LiveCall['identity'],
    request: LiveCall['request'],
    latest: LiveCall | undefined,
  ): LiveCall {
    const digest = identity.sha256.toString('hex');
    this.#identical.set(digest, (this.#identical.get(digest) ?? 0) + 1);
    const occurrence = (latest?.occurrence ?? 0) + 1;
    const recorded = this.#replay.takeCall(scope, digest, occurrence);
    return {
      scope,
      identity,
      occurrence,
      request,
      fallenBack: undefined,
      taken: NO_TOKENS,
      isCounted: false,
      brake: this.#brake,
      onActivity: this.#onActivity,
      recorded,
      seq: recorded?.seq,
      lastDispatch: recorded?.lastDispatch ?? 0,
      consumed: 0,
      issues: 0,
      triesAfresh: undefined,
      issue: new Issue(0, undefined, this.#over.signal, () => undefined),
      isOut: false,
      answer: undefined,
      isAnswered: false,
    };
  }

  /** Answers an issue from the journal, or lets it wait for going out. */
  #serve(call: LiveCall): void {
    if (call.recorded?.aborts.has(call.issues)) return; // stays pending until the code aborts it again (rule R3)
    const result = call.recorded?.results[call.consumed];
    if (result) {
      call.consumed += 1;
      if (result.kind === 'answer' || this.#replay.hasLater(result.completedNo)) {
        const issue = call.issue;
        this.#queue.request(result.completedNo, () => {
          const delivered = this.#whileDelivering(
            this.#replayResult(call, issue, result.response, result.kind === 'failure'),
          );
          this.#track(delivered);
          return delivered;
        });
        return;
      }
      this.#queue.skip(result.completedNo); // nothing that is recorded came of this refusal: tried afresh
      call.triesAfresh = result.completedNo;
    }
    if (call.answer) this.#deliver(call, call.issue, call.answer, false);
    else if (!call.isOut) this.#waiting.push(call);
  }

  /** A large answer is read from the database, which may take long, or be away. */
  async #whileDelivering(delivery: Promise<void>): Promise<void> {
    this.#deliveries += 1;
    try {
      await delivery;
    } finally {
      this.#deliveries -= 1;
      this.#active();
    }
  }

  async #replayResult(call: LiveCall, issue: Issue, response: RecordedResponse, failed: boolean): Promise<void> {
    const body = response.body ?? (await readBody(this.#env.pool, this.lease, response));
    if (!failed) this.replayedCalls += 1;
    if (failed && hadBegunStream(response, body)) {
      issue.openStream(response.status, response.headers);
      issue.pushChunk(body);
    }
    this.#deliver(call, issue, { ...response, body }, failed);
  }

  #deliver(call: LiveCall, issue: Issue, response: RecordedResponse, failed: boolean): void {
    if (!failed) {
      if (call.seq !== undefined) this.#answered.add(call.seq);
      call.answer = response;
      call.isAnswered = issue.isOpen;
    } else if (isPermanent(call.request, response)) {
      this.permanentFailure = response.error ?? `HTTP ${response.status}`;
    }
    if (failed && issue.isStreaming) issue.breakStream(response.error ?? 'the stream broke off');
    else issue.deliver(responseOf(response, response.body ?? Buffer.alloc(0), failed));
  }

  /** Something was issued: what waited for it may now be released or go out. */
  #progress(): void {
    this.#active();
    this.#queue.pump();
    if (this.#replay.hasUnused) return;
    for (const call of this.#waiting.splice(0)) this.#goOut(call);
    for (const act of this.#waitingActions.splice(0)) act();
  }

  #mayAct(key: string): Promise<number | undefined> {
    if (!this.#replay.hasUnused || this.#reopenedActions.has(key))
      return Promise.resolve(this.#reopenedActions.get(key));
    return new Promise((resolve) => this.#waitingActions.push(() => resolve(undefined)));
  }

  #active(): void {
    this.#onActivity();
    this.#rest.activity();
  }

  #goOut(call: LiveCall): void {
    if (this.#isOver || !call.issue.isOpen) return;
    call.isOut = true;
    const repeats = this.#identical.get(call.identity.sha256.toString('hex')) ?? 0;
    if (repeats > this.#env.limits.maxIdenticalCalls) this.#track(this.#stopRepeating(repeats));
    else this.#track(this.#send(Object.assign(call, { seq: call.seq ?? ++this.#lastSeq })));
  }

  async #send(call: OutgoingCall): Promise<void> {
    const afterNo = Math.min(this.#queue.lastNo, (call.triesAfresh ?? Infinity) - 1); // by which loadJournal sees that it was tried afresh
    call.triesAfresh = undefined;
    const result = await dispatchCall(this.#env, this.lease, call, afterNo, this.#over.signal, this.#allowance);
    call.isOut = false;
    this.#onActivity();
    if (this.#isOver) return wakeTask(this.#env.pool, this.lease.taskId); // its next holder may wait for this outcome
    if (result.kind === 'ended') return this.end(result.verdict);
    if (result.kind === 'unwanted') return this.#goOut(call); // asked again in the meantime, it goes out again
    const failed = result.kind === 'failure';
    if (this.#env.alwaysReplay && !failed) return this.end({ kind: 'replay' }); // a failure that is the last record would be tried afresh, for ever
    const response =
      failed || result.completed.answers ? result.response : await readAnswer(this.#env.pool, this.lease, call.seq);
    if (!failed) call.answer = response;
    this.#queue.add(result.completed.completedNo, () => this.#finish(call, response, failed));
  }

  async #stopRepeating(repeats: number): Promise<void> {
    const why =
      `task ${this.lease.key} makes the same call for the ${repeats}. time in one run, as an agent in a loop does; ` +
      'if it is meant to, set MADRUGADA_MAX_IDENTICAL_CALLS higher';
    this.end(await stopAutomatically(this.#env.pool, this.lease.batchKey, 'identical calls', why));
  }

  /** A live result's turn: a stream that the code already reads gets its end, any other issue the whole. */
  #finish(call: LiveCall, response: RecordedResponse, failed: boolean): void {
    const { issue } = call;
    if (!failed && issue.isStreaming) {
      if (call.seq !== undefined) this.#answered.add(call.seq);
      call.isAnswered = issue.isOpen;
      issue.finishStream(response.body ?? Buffer.alloc(0));
    } else this.#deliver(call, issue, response, failed);
  }

  #recordAbort(call: LiveCall, issue: Issue): void {
    this.#active();
    if (this.#isOver || call.seq === undefined || call.recorded?.aborts.has(issue.ordinal)) return;
    this.#track(this.steps.recordAbort(call.seq, issue.ordinal));
  }

  #track(work: Promise<unknown>): void {
    const tracked = work
      .catch((error: unknown) => this.end({ kind: 'broken', error }))
      .finally(() => this.#inFlight.delete(tracked));
    this.#inFlight.add(tracked);
  }

  #whenAtRest(): void {
    if (this.#isOver || !this.#replay.hasUnused || !this.#isAwaited) return;
    if (this.steps.areRunning || this.#deliveries > 0) return;
    this.end(this.#divergence('limit', this.#waiting[0]));
  }

  get #isAwaited(): boolean {
    return (
      this.#waiting.length + this.#waitingActions.length > 0 ||
      [...this.#latest.values()].some((call) => call.issue.isOpen)
    );
  }

  #divergence(atRest: 'settled' | 'limit', waiting: LiveCall | undefined): Verdict {
    return describeDivergence(this.lease, this.#replay.firstUnused(), waiting, atRest, this.#env.limits.restMs);
  }

  /** What is paid again from a call on is paid without the records from after its issue: the checkpoint must be one of them. */
  #otherState(checkpoint: string, completedNo: number): Verdict {
    const from = Math.min(
      this.#replay.firstUnusedSeq() ?? this.#lastSeq,
      this.#replay.lastSeqIssuedBefore(completedNo) ?? this.#lastSeq,
    );
    return describeOtherState(this.lease, checkpoint, from);
  }
}

/** A repeated identical request is the same call while that has no answer the code has got, and nobody waits for one (rule R10). */
function repeats(latest: LiveCall, isRetry: boolean): boolean {
  return isRetry || (!latest.issue.isOpen && !latest.isAnswered);
}

/** True of a failure that the code saw as a stream that broke off: something had been generated before. */
function hadBegunStream({ status, headers }: RecordedResponse, body: Uint8Array): boolean {
  if (status !== 200 || !isEventStream(headers)) return false;
  const reader = new EventStreamReader();
  reader.push(body);
  return reader.hasBegun;
}

/** A failure is classified by what is recorded of it, live and on replay. */
function isPermanent({ method, url }: LiveCall['request'], response: RecordedResponse): boolean {
  const { status, headers, body = Buffer.alloc(0) } = response;
  const received = { method, path: url.pathname, status, headers, body, brokenBy: undefined };
  return classify(received).kind === 'permanent for task';
}
