import { type ListedAction, listActions, waitsForPerson } from '../action/list-actions.ts';
import type { Queryable } from '../batch/queryable.ts';
import { spanWords, stateWords } from './action-words.ts';
import { oneLine } from './terminal-text.ts';

const SHOWN = 10;

/** The actions of a batch that a person must decide on, or look at. */
export async function waitingActions(db: Queryable, batchKey: string): Promise<ListedAction[]> {
  return (await listActions(db, { batchKey })).filter(waitsForPerson);
}

/** A line for each of the first ten, with the command that comes next, and one for the others. */
export function waitingActionLines(actions: readonly ListedAction[], batchKey: string): string[] {
  const more = actions.length - SHOWN;
  return [
    ...actions.slice(0, SHOWN).map(describe),
    ...(more > 0 ? [`and ${more} more: madrugada action list ${batchKey}`] : []),
  ];
}

function describe({ id, name, state, secondsLeft, intent }: ListedAction): string {
  return `action ${id} (${name}) ${waits(state, secondsLeft)}: ${oneLine(intent)}: madrugada action show ${id}`;
}

function waits(state: ListedAction['state'], secondsLeft: number): string {
  if (state !== 'proposed') return state === 'unknown' ? 'is unknown, and needs a person' : stateWords(state);
  return secondsLeft > 0 ? `waits for approval, ${spanWords(secondsLeft)} more` : 'has expired';
}
