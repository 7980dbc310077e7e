import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { CHECKLIST, type ChecklistPoint, type Decided, decideAction } from '../action/decide-action.ts';
import { tendActions } from '../action/list-actions.ts';
import { type ShownAction, showAction } from '../action/show-action.ts';
import { MadrugadaError } from '../errors.ts';
import { approveCommand, DIGEST_DIGITS } from './action-next.ts';
import { actionScreen } from './action-screen.ts';
import { actionNumber } from './action-words.ts';
import { type CommonFlags, printResult } from './output.ts';
import { exactText, oneLine } from './terminal-text.ts';
import { withClient } from './with-client.ts';

interface ApproveFlags extends CommonFlags {
  by: string;
  digest?: string;
  challenge?: string;
  checklist?: ChecklistPoint[] | undefined;
  reason?: string;
}

/** What a person agrees to: exactly what has this digest. */
interface Agreement {
  digest: string;
  challenge: string | undefined;
  checklist: ChecklistPoint[];
}

const HELP = `
On a terminal, without --digest, shows the action and asks. Else give the digest that madrugada action show has shown, or its first ${DIGEST_DIGITS} digits
or more: what has changed since is not approved. What cannot be undone needs the challenge, typed, and the checklist. Approving
twice is approving once; whoever has proposed it cannot approve it; two people are two different names.

Examples:
  madrugada action approve 12 --by ana
  madrugada action approve 12 --by ana --digest 3f9c02d1
  madrugada action approve 13 --by ana --digest 77ab01cd --challenge "77ab01cd the payment" --checklist resource,blast-radius,rollback`;

/** `madrugada action approve`. */
export function registerApprove(action: Command): void {
  action
    .command('approve <id>')
    .description('approve exactly what was shown')
    .requiredOption('--by <name>', 'who')
    .option('--digest <digits>', `of what was shown, at least its first ${DIGEST_DIGITS} digits`)
    .option('--challenge <text>', 'the text that action show asks for, where it cannot be undone')
    .option('--checklist <points>', `what you have checked: ${CHECKLIST.join(',')}`)
    .option('--reason <text>', 'why')
    .addHelpText('after', HELP)
    .action(approve);
}

async function approve(idText: string, given: Omit<ApproveFlags, 'checklist'> & { checklist?: string }): Promise<void> {
  const id = actionNumber(idText);
  const flags: ApproveFlags = {
    ...given,
    checklist: given.checklist === undefined ? undefined : points(given.checklist),
  };
  checkDigest(flags.digest);
  await withClient('approver', async (client) => {
    await tendActions(client);
    const action = await showAction(client, id);
    const agreement = flags.digest === undefined ? await ask(action, flags) : agreementOf(action, flags.digest, flags);
    const { by, reason } = flags;
    const decided = await decideAction(client, { id, verdict: 'approve', ...agreement }, { by, reason });
    printResult(flags, { action: id, ...decided, message: decided.message ?? null }, describe(action, decided));
  });
}

function points(text: string): ChecklistPoint[] {
  return text.split(',').map((part) => {
    const point = CHECKLIST.find((known) => known === part.trim());
    if (point === undefined) throw new MadrugadaError(`--checklist: "${part}" is none of ${CHECKLIST.join(', ')}`);
    return point;
  });
}

function checkDigest(digest: string | undefined): void {
  if (digest !== undefined && !new RegExp(`^[0-9a-f]{${DIGEST_DIGITS},64}$`, 'i').test(digest))
    throw new MadrugadaError(
      `--digest takes at least the first ${DIGEST_DIGITS} digits of the digest that madrugada action show has shown`,
    );
}

/** A digest that is not this one's goes to the database as it is, which refuses it and puts that on record. */
function agreementOf({ digest }: ShownAction, said: string, { challenge, checklist = [] }: ApproveFlags): Agreement {
  const start = said.toLowerCase();
  return { digest: digest.startsWith(start) ? digest : start, challenge, checklist };
}

/** Shows the action and asks for what only somebody who has looked can type. */
async function ask(action: ShownAction, flags: ApproveFlags): Promise<Agreement> {
  if (flags.json || !process.stdin.isTTY || !process.stdout.isTTY)
    throw new MadrugadaError(
      `action ${action.id}: what do you approve? madrugada action show ${action.id} shows it; then: ${approveCommand(action)}`,
    );
  process.stdout.write(`${actionScreen(action, process.stdout.columns)}\n\n`);
  if (action.state !== 'proposed') return agreementOf(action, action.digest, flags); // the database says what is to be said
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const checklist = flags.checklist ?? (await askChecklist(terminal, action));
    if (action.approval !== 'challenge') {
      const typed = (
        await terminal.question(`To approve, type the first ${DIGEST_DIGITS} digits of the digest: `)
      ).trim();
      checkTyped(typed);
      return agreementOf(action, typed, { ...flags, checklist });
    }
    const challenge =
      flags.challenge ?? (await terminal.question(`To approve, type: ${exactText(action.challenge)}\n> `));
    checkTyped(challenge);
    return { digest: action.digest, challenge, checklist };
  } finally {
    terminal.close();
  }
}

function checkTyped(typed: string): void {
  if (typed.trim().length < DIGEST_DIGITS) throw new MadrugadaError('not approved: nothing was changed');
}

const QUESTIONS: Record<ChecklistPoint, (action: ShownAction) => string> = {
  resource: ({ intent }) => `Is it the right thing to change: ${intent}`,
  'blast-radius': ({ blastRadius }) => `May it touch: ${blastRadius}`,
  rollback: ({ rollbackPlan }) => `Is it right although it cannot be undone: ${rollbackPlan}`,
};

async function askChecklist(
  terminal: ReturnType<typeof createInterface>,
  action: ShownAction,
): Promise<ChecklistPoint[]> {
  if (action.rollbackKind !== 'none') return [];
  const checked: ChecklistPoint[] = [];
  for (const point of CHECKLIST) {
    const answer = await terminal.question(`${oneLine(QUESTIONS[point](action))}? yes or no: `);
    if (answer.trim().toLowerCase() === 'yes') checked.push(point);
  }
  return checked;
}

function describe({ id, batchKey, approval }: ShownAction, { outcome, message }: Decided): string {
  switch (outcome) {
    case 'approved':
      return `action ${id} is approved; it is executed when its task is worked on: madrugada run ${batchKey}`;
    case 'waiting':
      return `action ${id} has your approval, and waits for ${approval === 'two-people' ? 'a second person' : 'another'}: madrugada action show ${id}`;
    default:
      return `action ${id}: ${message}; nothing was changed`;
  }
}
