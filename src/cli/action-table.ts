import type { ListedAction } from '../action/list-actions.ts';
import { spanWords, stateWords } from './action-words.ts';
import { formatTable } from './output.ts';
import { oneLine } from './terminal-text.ts';

/** Actions in a table; what they are for is cut to the width. */
export function actionTable(actions: readonly ListedAction[], width: number): string {
  const table = formatTable(
    ['id', 'state', 'action', 'task', 'expires', 'for'],
    actions.map((a) => [
      ...[a.id, describeState(a), a.name, a.task],
      ...[a.state === 'proposed' || a.state === 'approved' ? `in ${spanWords(a.secondsLeft)}` : ''],
      oneLine(a.intent),
    ]),
  );
  return table
    .split('\n')
    .map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line))
    .join('\n');
}

function describeState({ state, approval, approvedBy }: ListedAction): string {
  if (state !== 'proposed' || approval !== 'two-people') return stateWords(state);
  return `proposed, ${approvedBy.length} of 2`;
}
