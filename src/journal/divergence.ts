import type { Lease } from './lease.ts';
import type { LiveCall } from './live-call.ts';
import type { RecordedCall, RecordedStep } from './load-journal.ts';
import type { Verdict } from './verdict.ts';

/** Words the verdict on a task that came to rest with recorded calls unused: nothing was paid, a person decides. */
export function describeDivergence(
  lease: Lease,
  unused: RecordedCall | RecordedStep | undefined,
  waiting: LiveCall | undefined,
  atRest: 'settled' | 'limit',
  restMs: number,
): Verdict {
  const seq = unused && 'seq' in unused ? unused.seq : undefined;
  const recorded =
    unused === undefined
      ? 'a record'
      : 'seq' in unused
        ? `recorded call ${unused.seq}${within(unused.scope)}`
        : `recorded ${unused.kind} "${unused.name}"${within(unused.scope)}`;
  const instead = waiting
    ? `the code asked for another call instead: ${waiting.request.method} ${waiting.request.url.pathname}${within(waiting.scope)}`
    : 'the code did not ask for it again';
  const rest = atRest === 'settled' ? 'the run ended' : `nothing moved for ${restMs / 1000} s`;
  const remedy =
    atRest === 'limit'
      ? `madrugada retry ${lease.key} --by WHO --reason TEXT tries again for free`
      : `madrugada retry ${lease.key} --by WHO --reason TEXT --pay-again-from ${seq ?? 1} pays again from there`;
  return {
    kind: 'diverged',
    seq,
    atRest,
    message: `task ${lease.key} diverged from its journal: ${recorded} was not used, ${instead}, and ${rest}. Nothing was paid. madrugada task show ${lease.key} shows the calls; ${remedy}.`,
  };
}

/** Words the verdict on a replay that is in another state than the run it repeats, though it has asked for the same until now. */
export function describeOtherState(lease: Lease, checkpoint: string, seq: number): Verdict {
  return {
    kind: 'diverged',
    seq,
    atRest: 'settled',
    message: `task ${lease.key} diverged from its journal: at checkpoint "${checkpoint}" its state is not the one recorded there. Nothing was paid. Restore the code and the documents it ran with, or madrugada retry ${lease.key} --by WHO --reason TEXT --pay-again-from ${seq} pays again from there.`,
  };
}

function within(scope: string): string {
  return scope === '' ? '' : ` in scope ${scope}`;
}
