import { type Command, InvalidArgumentError } from 'commander';
import { findBatch } from '../batch/find-batch.ts';
import { type Doubt, listDoubts, type Settling, settleDoubt, settleFromBill } from '../bill/doubts.ts';
import { exposureSentence, readExposure, readTotalExposure } from '../bill/exposure.ts';
import { MadrugadaError } from '../errors.ts';
import { positiveInteger } from './flags.ts';
import { type CommonFlags, formatTable, printResult, snakeKeys } from './output.ts';
import { withClient } from './with-client.ts';

interface SettleFlags extends CommonFlags {
  dispatch?: number;
  charged?: string;
  notCharged?: boolean;
  payAgain?: boolean;
  fromBill?: boolean;
  complete?: boolean;
  by: string;
  reason: string;
}

const LIST_HELP = `
A dispatch is in doubt when its answer did not arrive whole: it may have been charged. "until" is when its sender can no longer bring the
answer; "bill" says whether an imported bill has it.

Example:
  madrugada doubt list 2026-11`;

const SETTLE_HELP = `
Settled as not charged, a dispatch counts as never sent: its call may be sent again. Settled as charged, it counts at its price; under the policy
"hold" its call is then paid again only with --pay-again. With --from-bill the imported bills decide: what they charge is charged what they
say; with --complete you vouch that they have every charge, and the rest is not charged. A settlement is not taken back.

Examples:
  madrugada doubt settle 2026-11 --from-bill --complete --by ana --reason "bill of 30 November"
  madrugada doubt settle 2026-11:215:v3 8 --not-charged --by ana --reason "the provider's support says so"
  madrugada doubt settle 2026-11:215:v3 8 --charged 0.0164 --pay-again --by ana --reason "the answer is lost"`;

/** `madrugada doubt`: the dispatches of which it is not known whether they were charged. */
export function register(program: Command): void {
  const doubt = program.command('doubt').description('dispatches that may have been charged although no answer came');
  doubt
    .command('list [batch]')
    .description('list the dispatches in doubt, and what to do next')
    .addHelpText('after', LIST_HELP)
    .action(list);
  doubt
    .command('settle <name> [seq]')
    .description(
      'say what became of one dispatch (TASK SEQ), or by its bills of all those of a batch (BATCH --from-bill)',
    )
    .option('--dispatch <n>', 'which dispatch of the call, where several are in doubt', positiveInteger)
    .option('--charged <usd>', 'it was charged, so much', chargedDollars)
    .option('--not-charged', 'it was not charged')
    .option('--pay-again', 'with --charged: its call may be paid again, also under the policy hold')
    .option('--from-bill', 'all of a batch, by the bills imported for it')
    .option('--complete', 'with --from-bill: what is not on the bill was not charged')
    .requiredOption('--by <name>', 'who')
    .requiredOption('--reason <text>', 'why')
    .addHelpText('after', SETTLE_HELP)
    .action(settle);
}

async function list(name: string | undefined, flags: CommonFlags): Promise<void> {
  await withClient('auditor', async (client) => {
    const key = name === undefined ? undefined : (await findBatch(client, name)).key;
    const doubts = await listDoubts(client, key);
    const exposure = key === undefined ? await readTotalExposure(client) : await readExposure(client, key);
    const document = {
      doubts: doubts.map((doubt) => ({ ...snakeKeys(doubt), next: nextStep(doubt) })),
      exposure: snakeKeys(exposure),
    };
    const text = doubts.length === 0 ? 'nothing is in doubt' : describe(doubts);
    printResult(flags, document, `${text}\n${exposureSentence(exposure)}`);
  });
}

function describe(doubts: Doubt[]): string {
  const table = formatTable(
    ['task', 'call', 'dispatch', 'model', 'sent', 'until', 'at most US$', 'bill'],
    doubts.map((doubt) => [
      ...[doubt.task, doubt.seq, doubt.dispatch, doubt.model ?? ''],
      ...[
        doubt.sentAt.toISOString(),
        doubt.waitingUntil.toISOString(),
        doubt.worstCaseUsd ?? 'no price',
        onBill(doubt),
      ],
    ]),
  );
  return [table, '', ...new Set(doubts.map((doubt) => `next: ${nextStep(doubt)}`))].join('\n');
}

function onBill({ onBill }: Doubt): string {
  if (onBill === null) return 'no bill yet';
  return onBill ? 'charged' : 'not on it';
}

/** What a person does next; the same for all of a batch that stand alike. */
function nextStep({ batchKey, senderAtWork, onBill }: Doubt): string {
  const person = '--by WHO --reason TEXT';
  if (senderAtWork) return 'wait: the sender may still bring the answer';
  if (onBill === null) return `get the provider's bill, then madrugada bill import ${batchKey} FILE`;
  if (onBill) return `madrugada doubt settle ${batchKey} --from-bill ${person}`;
  return `if the bill has every charge, madrugada doubt settle ${batchKey} --from-bill --complete ${person}; else import the bill that follows`;
}

async function settle(name: string, seq: string | undefined, flags: SettleFlags): Promise<void> {
  if (flags.fromBill) return settleByBill(name, seq, flags);
  if (flags.complete) throw new MadrugadaError('--complete goes with --from-bill');
  if (seq === undefined)
    throw new MadrugadaError('say which call: madrugada doubt settle TASK SEQ …, or a whole batch with --from-bill');
  const call = { task: name, seq: callNumber(seq), dispatch: flags.dispatch };
  const settling = settlingOf(flags);
  await withClient('operator', async (client) => {
    const dispatch = await settleDoubt(client, call, settling, flags);
    const { verdict } = settling;
    const [usd, payAgain] = verdict === 'charged' ? [settling.usd, settling.payAgain] : [null, false];
    printResult(
      flags,
      { task: name, seq: call.seq, dispatch, verdict, cost_usd: usd, pay_again: payAgain },
      `dispatch ${dispatch} of call ${call.seq} of task ${name} is settled: ${usd === null ? 'not charged' : `charged US$ ${usd}`}`,
    );
  });
}

function settlingOf({ charged, notCharged, payAgain = false }: SettleFlags): Settling {
  if ((charged === undefined) === (notCharged !== true))
    throw new MadrugadaError('say either --charged USD or --not-charged');
  if (charged !== undefined) return { verdict: 'charged', usd: charged, payAgain };
  if (payAgain) throw new MadrugadaError('--pay-again goes with --charged: what was not charged is sent again anyway');
  return { verdict: 'not_charged' };
}

async function settleByBill(name: string, seq: string | undefined, flags: SettleFlags): Promise<void> {
  if (
    seq !== undefined ||
    flags.dispatch !== undefined ||
    flags.charged !== undefined ||
    flags.notCharged ||
    flags.payAgain
  )
    throw new MadrugadaError('--from-bill settles a whole batch by its bills: give no call, amount or verdict with it');
  await withClient('operator', async (client) => {
    const settled = await settleFromBill(client, name, flags.complete === true, flags);
    const { batchKey, billId, charged, notCharged, left } = settled;
    const text = [
      `batch ${batchKey}, bill ${billId}: ${charged} dispatches settled as charged, ${notCharged} as not charged`,
      ...(left > 0 ? [`${left} stay in doubt: madrugada doubt list ${batchKey} says why`] : []),
    ];
    const { batchKey: batch, billId: bill, ...figures } = settled;
    printResult(flags, { batch, bill, ...snakeKeys(figures) }, text.join('\n'));
  });
}

/** As on a bill, which has more decimals than people give a budget, and charges of nothing. */
function chargedDollars(text: string): string {
  if (!/^\d{1,9}(\.\d{1,12})?$/.test(text)) throw new InvalidArgumentError('It must be dollars, such as 0.0164.');
  return text;
}

function callNumber(text: string): number {
  try {
    return positiveInteger(text);
  } catch (error) {
    throw new MadrugadaError(`"${text}" is no call: its number, from 1 on`, 2, { cause: error });
  }
}
