import { CHECKLIST } from '../action/decide-action.ts';
import type { ShownAction } from '../action/show-action.ts';
import { exactText } from './terminal-text.ts';

/** The digits of a digest that a person gives. */
export const DIGEST_DIGITS = 8;

/** What a person does next with an action: whole commands, one a line. */
export function nextSteps(action: ShownAction): string[] {
  const { id, state, batchKey } = action;
  const reject = `madrugada action reject ${id} --by WHO --reason TEXT`;
  switch (state) {
    case 'proposed':
      if (!action.isIntact) return [`next: ${reject}`];
      return [`next: ${approveCommand(action)}`, ...challenge(action), `or:   ${reject}`];
    case 'approved':
      return [`next: it is executed when its task is worked on: madrugada run ${batchKey}`, `or:   ${reject}`];
    case 'in_flight':
    case 'rolling_back':
      return [`next: a worker brings it to its end, or finds out what became of it: madrugada run ${batchKey}`];
    case 'unknown':
    case 'needs_person':
      return [
        'next: look at the target, put it right if need be, and say how it stands now:',
        `      madrugada action settle ${id} --as committed|aborted|rolled-back --by WHO --reason TEXT`,
        '      committed: it is in effect; aborted: it took none; rolled-back: it has been undone',
      ];
    case 'committed':
      return ['next: nothing; it is in effect'];
    default:
      return ['next: nothing; no effect is left of it, and its task may propose it again'];
  }
}

/** The command that approves exactly what is shown; over two lines where it has much to say. */
export function approveCommand({ id, digest, approval, rollbackKind }: ShownAction): string {
  const more = [
    ...(approval === 'challenge' ? ['--challenge TEXT'] : []),
    ...(rollbackKind === 'none' ? [`--checklist ${CHECKLIST.join(',')}`] : []),
  ].join(' ');
  const command = `madrugada action approve ${id} --by WHO --digest ${digest.slice(0, DIGEST_DIGITS)}`;
  return more === '' ? command : `${command} \\\n        ${more}`;
}

function challenge(action: ShownAction): string[] {
  if (action.approval !== 'challenge') return [];
  return [`      type as TEXT: ${exactText(action.challenge)}`];
}
