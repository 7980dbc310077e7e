import type { TurnReport } from '../sandbox/protocol.ts';

/** Where a task stands after a turn. */
export interface Standing {
  turn: number;
  maxTurns: number;
  subcalls: number;
  /** Undefined for a nested run, which shares what there is with others. */
  maxSubcalls: number | undefined;
}

/** What the root model is told after its code was run. */
export function turnMessage(report: TurnReport, problems: string[], standing: Standing): string {
  const output = report.output.trimEnd();
  return [
    output === '' ? 'Nothing was printed.' : `<output>\n${output}\n</output>`,
    ...(report.failure === undefined ? [] : [`The code failed: ${report.failure}`]),
    ...(report.failure !== undefined && report.answer !== undefined
      ? ['Its answer was not taken, because the code failed after it.']
      : []),
    ...(problems.length === 0 ? [] : [refusal(problems)]),
    where(standing),
  ].join('\n\n');
}

/** What the root model is told when there was nothing to run. */
export function nothingRunMessage(isCut: boolean, maxTokens: number, standing: Standing): string {
  const why = isCut
    ? `Your message was cut off at ${maxTokens} tokens, and nothing of it was run. Write less at a time.`
    : 'There was no block of code in your message, so nothing was run. Write one fenced with ```js; end with answer(…) in such a block.';
  return `${why}\n\n${where(standing)}`;
}

function refusal(problems: string[]): string {
  return `The answer was refused:\n${problems.map((problem) => `- ${problem}`).join('\n')}\nMend it and call answer again; it is checked once more, for the last time.`;
}

function where({ turn, maxTurns, subcalls, maxSubcalls }: Standing): string {
  const last = turn === maxTurns - 1 ? ' The next turn is the last: answer in it.' : '';
  const used =
    maxSubcalls === undefined ? `sub-calls used here: ${subcalls}` : `${subcalls} of ${maxSubcalls} sub-calls are used`;
  return `(Turn ${turn} of ${maxTurns} is over; ${used}.${last})`;
}
