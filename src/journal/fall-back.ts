import type { Pool } from 'pg';
import type { FallBackSetting } from '../lease/claim.ts';
import { patiently } from '../postgres/patiently.ts';
import { lowerMaxTokens } from '../provider/clamp-max-tokens.ts';
import { classify } from '../provider/refusal.ts';
import { replaceModel } from '../provider/replace-model.ts';
import { isFreeRequest } from '../provider/worst-case.ts';
import type { JournalEnvironment } from './environment.ts';
import type { Lease } from './lease.ts';
import type { LiveCall, OutgoingCall } from './live-call.ts';
import type { Ending } from './outcome.ts';
import { type JournaledRequest, plainBody } from './request.ts';

/** What of a call goes to the provider: the request, and the model it names (undefined: none). */
export interface Asking {
  request: JournaledRequest;
  model: string | undefined;
}

/** What of a call its next dispatch sends: the request as the code made it or, once it has fallen back, the same to the other model. */
export function askingOf({ fallenBack, request, identity }: LiveCall): Asking {
  return fallenBack ?? { request, model: identity.model };
}

/**
 * Counts the refusals of one call that its provider's trouble accounts for (status 429, 5xx and what else the journal tries again, in a
 * stream too), and says when the batch's fall-back model is due. Those of earlier runs and attempts count: the journal has them. A call
 * whose worst case at the fall-back model has no price or no bound does not fall back: it goes on asking its own model. So does one that the
 * fall-back model refuses as malformed (a feature that it lacks): its task shall not fail for that.
 */
export class FallBack {
  readonly #env: JournalEnvironment;
  readonly #call: OutgoingCall;
  readonly #setting: FallBackSetting | undefined;
  #refusals: number;
  #isUnfit = false;

  constructor(env: JournalEnvironment, call: OutgoingCall, setting: FallBackSetting | undefined, refusals: number) {
    this.#env = env;
    this.#call = call;
    this.#setting = setting;
    this.#refusals = refusals;
  }

  /** For a call about to go out, which may have been refused before. */
  static async of(
    env: JournalEnvironment,
    lease: Lease,
    call: OutgoingCall,
    setting: FallBackSetting | undefined,
  ): Promise<FallBack> {
    const hasBegun = setting !== undefined && call.lastDispatch > 0;
    return new FallBack(env, call, setting, hasBegun ? await countRefusals(env.pool, lease, call) : 0);
  }

  /** Counts how a dispatch ended. True: the next one asks another model than it did, so what that one asked to wait does not count. */
  changesModelAfter(ending: Ending): boolean {
    if (ending.kind === 'refused') this.#refusals += 1;
    const isRefusedForGood = ending.kind === 'permanent for task' && ending.charge === 'none';
    if (this.#call.fallenBack !== undefined && isRefusedForGood) this.#isUnfit = true;
    return this.#isUnfit ? this.#call.fallenBack !== undefined : this.#due() !== undefined;
  }

  /** Has the next dispatch ask the model whose turn it is. True when the last one asked another. */
  changeModel(): boolean {
    const before = this.#call.fallenBack;
    this.#call.fallenBack = this.#isUnfit ? undefined : (before ?? this.#due());
    return this.#call.fallenBack !== before;
  }

  #due(): Asking | undefined {
    const { fallenBack, identity } = this.#call;
    if (this.#setting === undefined || this.#refusals < this.#setting.after || fallenBack !== undefined)
      return undefined;
    return identity.model === this.#setting.model ? undefined : this.#toFallBack(this.#setting.model);
  }

  #toFallBack(model: string): Asking | undefined {
    const request = withModel(this.#call.request, model, this.#env.prices.mostOutputOf(model, new Date()));
    if (request === undefined) return undefined;
    const priced = { method: request.method, path: request.url.pathname, body: request.body };
    if (isFreeRequest(priced)) return undefined; // another model's count of tokens is no answer
    const worst = this.#env.prices.worstCaseOf(priced, model, new Date());
    return 'problem' in worst ? undefined : { request, model };
  }
}

/**
 * The request with another model's name, byte for byte the same otherwise: only where it asks for more output than that model writes
 * (undefined: not known) is its limit lowered, since the provider would take it for malformed; and what was compressed is sent plain.
 */
function withModel(
  request: JournaledRequest,
  model: string,
  mostOutput: number | undefined,
): JournaledRequest | undefined {
  const replaced = replaceModel(plainBody(request), model);
  if (replaced === undefined) return undefined;
  const headers = new Headers(request.headers);
  headers.delete('content-encoding');
  return { ...request, headers, body: mostOutput === undefined ? replaced : lowerMaxTokens(replaced, mostOutput) };
}

interface RefusalRow {
  status: number | null;
  response_headers: Record<string, string> | null;
  response: Buffer | null;
}

/** The primary key's range of one call. Classified anew, because credentials and malformed requests are journaled as refused, too. */
async function countRefusals(pool: Pool, lease: Lease, { seq, request }: OutgoingCall): Promise<number> {
  const { rows } = await patiently(() =>
    pool.query<RefusalRow>(
      `SELECT status, response_headers, response FROM madrugada.call_outcome
        WHERE batch_key = $1 AND task_id = $2 AND seq = $3 AND kind IN ('refused', 'unknown')`,
      [lease.batchKey, lease.taskId, seq],
    ),
  );
  return rows.filter((row) => isRefusal(row, request)).length;
}

function isRefusal({ status, response_headers, response }: RefusalRow, { method, url }: JournaledRequest): boolean {
  const received = {
    method,
    path: url.pathname,
    status: status ?? 0,
    headers: response_headers ?? {},
    body: response ?? Buffer.alloc(0),
    brokenBy: undefined,
  };
  return classify(received).kind === 'refused';
}
