import { messageOf } from '../errors.ts';
import { NO_TOKENS, type PacedAddress, type Tokens, type UsedTokens } from '../provider/pace.ts';
import type { JournalEnvironment } from './environment.ts';
import { askingOf } from './fall-back.ts';
import type { Lease } from './lease.ts';
import type { LiveCall } from './live-call.ts';
import type { Ending, Reception } from './outcome.ts';
import { plainBody } from './request.ts';
import type { OutcomeRow } from './rows.ts';

/** Whom the next dispatch of a call goes to. */
export function addressOf(call: LiveCall): PacedAddress {
  const { request, model } = askingOf(call);
  return { origin: request.url.origin, model };
}

/** What the next dispatch counts for until it is known what it used. One without a bound is not sent anyway. */
export function mostTokensOf({ prices }: Pick<JournalEnvironment, 'prices'>, call: LiveCall): Tokens {
  const { request, model } = askingOf(call);
  const priced = { method: request.method, path: request.url.pathname, body: plainBody(request) };
  const worst = prices.worstCaseOf(priced, model, new Date());
  return 'problem' in worst ? NO_TOKENS : { input: worst.inputTokens, output: worst.outputTokens };
}

/**
 * Tells the fleet how a dispatch ended: that its provider asks to slow down, and what it has used. Nobody waits for that: whoever asked sees
 * the ending now, a pace not told of comes with the next refusal, and what is not put back comes back with time.
 */
export function tellFleet(
  { pace, limits, log }: Pick<JournalEnvironment, 'pace' | 'limits' | 'log'>,
  lease: Lease,
  call: LiveCall,
  ending: Ending,
  { headers }: Reception,
  outcome: Omit<OutcomeRow, 'lease' | 'seq' | 'dispatch' | 'shown'>,
): void {
  const address = addressOf(call);
  const tell = async () => {
    if (ending.kind === 'refused' && ending.onLoad)
      await pace.noteRefusal(address, headers, limits.retryAfterCapMs, call.isCounted);
    if (outcome.kind === 'refused' || outcome.kind === 'not_sent')
      await pace.noteUse(address, call.taken, undefined, headers);
    else if (statesUsage(outcome)) await pace.noteUse(address, call.taken, outcome, headers);
  };
  tell().catch((error: unknown) =>
    log.warn(
      { task: lease.key, call: call.seq, provider: address.origin, model: address.model, err: messageOf(error) },
      ending.kind === 'refused'
        ? 'a refusal could not be told to the fleet: this call waits, all others go on at their pace until they are refused themselves'
        : 'what a dispatch has used could not be told to the fleet: its most counts until time has passed',
    ),
  );
}

/** Of an answer that does not say what it used, and of what is in doubt, the most counts. */
function statesUsage(outcome: {
  inputTokens: number | undefined;
  outputTokens: number | undefined;
}): outcome is UsedTokens {
  return outcome.inputTokens !== undefined && outcome.outputTokens !== undefined;
}
