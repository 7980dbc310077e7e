import { diffLines } from 'diff';
import { intendedChange } from '../action/intended-change.ts';
import type { Passage, ShownAction } from '../action/show-action.ts';
import { nextSteps } from './action-next.ts';
import { spanWords, stateWords } from './action-words.ts';
import { foldLines } from './fold-lines.ts';
import { exactText } from './terminal-text.ts';

/** Where the values begin, and what continues them. */
const MARGIN = 13;
/** Lines around a change that are shown of what stays. */
const CONTEXT = 3;

/**
 * Everything that a person needs in order to decide, on one screen of `width` columns. Values that others wrote keep to their margin, so that none
 * of them passes for a line of ours.
 */
export function actionScreen(action: ShownAction, width: number): string {
  const { id, name, state, why, intent, batchKey } = action;
  const blocks = [
    [
      ...field('for', intent),
      ...(why === null ? [] : field('why', why)),
      ...(action.isIntact ? [] : field('CHANGED', 'somebody has changed this row past the guard; it is not executed')),
    ],
    [...field('arguments', action.argumentsJson), ...changeLines(action)],
    risks(action),
    origin(action),
    [...decisions(action), ...found(action), ...field('history', action.history.map(passage).join('\n'))],
  ];
  return [
    foldLines(`action ${id} (${name}) of batch ${batchKey}: ${stateWords(state).toUpperCase()}`, width),
    blocks.map((lines) => lines.map((line) => foldValue(line, width)).join('\n')).join('\n\n'),
    foldLines(nextSteps(action).join('\n'), width),
  ].join('\n\n');
}

/** Breaks the value at the right of the margin; the label stays at its left. */
function foldValue(line: string, width: number): string {
  const folded = foldLines(' '.repeat(MARGIN) + line.slice(MARGIN), width);
  return line.slice(0, MARGIN) + folded.slice(MARGIN);
}

/** Lines under a label; what others wrote is spelled out character by character where it shows nothing. */
function field(label: string, text: string): string[] {
  return exactText(text)
    .split('\n')
    .map((line, index) => (index === 0 ? label : '').padEnd(MARGIN) + line);
}

function changeLines({ kind, presentJson }: ShownAction): string[] {
  const change = intendedChange(kind, presentJson);
  if (change === undefined)
    return field('at present', presentJson === null || presentJson === 'null' ? 'nothing can be shown' : presentJson);
  const { what, before, after } = change;
  if (before === undefined) return field('is to be', `${what}\n${prefixed(after, '+ ')}`);
  return field('change', `${what}, compared with what it was at the proposal\n${diffOf(before, after)}`);
}

function diffOf(before: string, after: string): string {
  const parts = diffLines(`${before}\n`, `${after}\n`);
  if (parts.every(({ added, removed }) => !added && !removed)) return '(it stays as it is)';
  return parts
    .map(({ added, removed, value }, index) => {
      const text = value.replace(/\n$/, '');
      if (added) return prefixed(text, '+ ');
      if (removed) return prefixed(text, '- ');
      return prefixed(abridge(text.split('\n'), index === 0, index === parts.length - 1).join('\n'), '  ');
    })
    .join('\n');
}

function prefixed(text: string, prefix: string): string {
  return text
    .split('\n')
    .map((line) => prefix + line)
    .join('\n');
}

/** What stays the same, but for the lines beside a change. */
function abridge(lines: string[], isFirst: boolean, isLast: boolean): string[] {
  const head = isFirst ? 0 : CONTEXT;
  const tail = isLast ? 0 : CONTEXT;
  if (lines.length <= head + tail + 1) return lines;
  const left = lines.length - head - tail;
  return [...lines.slice(0, head), `(${left} lines that stay)`, ...lines.slice(lines.length - tail)];
}

function risks({ permissions, blastRadius, rollbackKind, rollbackPlan }: ShownAction): string[] {
  return [
    ...field('uses', permissions.join('\n')),
    ...field('can touch', blastRadius),
    ...field(
      'rollback',
      rollbackKind === 'none' ? `NONE: cannot be undone: ${rollbackPlan}` : `${rollbackKind}: ${rollbackPlan}`,
    ),
  ];
}

function origin(action: ShownAction): string[] {
  const { task, lineage, attempt, agent, agentSha256, proposedAt, proposedBy, key, digest, generation } = action;
  const calls =
    lineage.length === 0 ? 'before any call' : `after call${lineage.length === 1 ? '' : 's'} ${lineage.join(', ')}`;
  return [
    ...field('proposed', `${proposedAt.toISOString()} by ${proposedBy}, attempt ${attempt} of task ${task}, ${calls}`),
    ...field('', `madrugada task show ${task}`),
    ...field('agent', `${agent}, sha256 ${agentSha256.slice(0, 12)}`),
    ...field(
      'key',
      `${key}${generation > 1 ? ` (proposed for the ${generation}th time: the ones before had no effect)` : ''}`,
    ),
    ...field('digest', digest),
  ];
}

const APPROVAL = {
  none: 'nobody is asked',
  person: 'one person',
  'two-people': 'two people',
  challenge: 'one person, who types a challenge',
};

function decisions({ approval, decisions: made, state, expiresAt, secondsLeft, onExpiry }: ShownAction): string[] {
  const said = made.map(
    ({ by, verdict, at, reason }) =>
      `${at.toISOString()} ${by} ${verdict === 'approve' ? 'approves' : 'rejects'}${reason ? `: ${reason}` : ''}`,
  );
  const then = onExpiry === 'fail' ? 'then the task fails' : 'then the task is told that it has expired';
  const left = state === 'proposed' || state === 'approved' ? `, in ${spanWords(secondsLeft)}; ${then}` : '';
  return [
    ...field(
      'approval',
      [APPROVAL[approval], ...(said.length === 0 && approval !== 'none' ? ['nobody has decided yet'] : said)].join(
        '\n',
      ),
    ),
    ...field('expires', expiresAt.toISOString() + left),
  ];
}

/** What came of it. */
function found({ executions, undos, effectJson, evidenceJson, evidenceIsWeak }: ShownAction): string[] {
  const tries = `executed ${executions} time${executions === 1 ? '' : 's'}${undos > 0 ? `, undo tried ${undos} times` : ''}`;
  return [
    ...(executions === 0 ? [] : field('execution', tries)),
    ...(effectJson === null || effectJson === 'null' ? [] : field('returned', effectJson)),
    ...(evidenceJson === null
      ? []
      : field(
          'evidence',
          `${evidenceIsWeak ? 'WEAK: it fits the effect, and does not prove it\n' : 'read back from the target\n'}${evidenceJson}`,
        )),
  ];
}

function passage({ at, event, actor, osUser, reason }: Passage): string {
  const who = osUser === null || osUser === actor ? actor : `${actor} (OS user ${osUser})`;
  return `${at.toISOString()} ${event}, by ${who}${reason === null ? '' : `: ${reason.replaceAll('\n', ' ')}`}`;
}
