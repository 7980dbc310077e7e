import { planOf, type RootPlan, SUB_CALLS } from './root-plan.ts';
import { closingProgram, plainClosingProgram } from './root-turns/closing.ts';
import type { Subject } from './root-turns/gathering.ts';
import { OPENINGS } from './root-turns/opening.ts';
import { READINGS } from './root-turns/reading.ts';
import { SYNTAX_ERRORS } from './root-turns/syntax-error.ts';
import { tellingWordsOf } from './words.ts';

/** What the root model says in one turn: a sentence, and the program to run. */
export type RootTurn = { readonly prose: string; readonly code: string };

const ANSWERING_TURN = 7;

/**
 * The root model's turn number `turn`, 1 for the first. Seven turns answer a question: one that looks at the context,
 * five that make 18 sub-calls in all, and one that answers. On some questions one of the five does not parse and the
 * next repairs it. A turn after the seventh, whose answer was refused then, gives a plainer one.
 */
export function rootTurn(question: string, turn: number): RootTurn {
  const plan = planOf(
    question,
    READINGS.map(({ concurrent }) => concurrent),
  );
  const subject = { question: literal(question), words: literal(tellingWordsOf(question)) };
  if (turn === 1) return openingTurn(subject, plan);
  if (turn === ANSWERING_TURN) return { prose: 'Enough is read to answer.', code: closingProgram() };
  if (turn > ANSWERING_TURN) return { prose: 'A plainer answer, then.', code: plainClosingProgram(subject) };
  return readingTurn(turn, plan);
}

function openingTurn(subject: Subject, plan: RootPlan): RootTurn {
  const code = pick(OPENINGS, plan.drawn('opening'))(subject, SUB_CALLS);
  return { prose: 'First a look at the context, before any of it is read.', code };
}

function readingTurn(turn: number, plan: RootPlan): RootTurn {
  const broken = turn === plan.brokenTurn;
  const round = plan.rounds.get(broken ? turn + 1 : turn);
  if (!round) throw new RangeError(`turn ${turn} reads nothing`);
  const { prose, program } = READINGS[round.style] ?? READINGS[0];
  const code = program(round);
  if (broken) return { prose, code: pick(SYNTAX_ERRORS, plan.drawn('syntax error'))(code) };
  if (turn - 1 !== plan.brokenTurn) return { prose, code };
  return { prose: 'Nothing of that ran, for it had a syntax error; here is the program repaired.', code };
}

/** `value` as it stands in a program: without backticks, which could end the fence around it. */
function literal(value: string | readonly string[]): string {
  return JSON.stringify(value).replaceAll('`', '\\u0060');
}

/** The element of `list` at `share` of its length, 0 to 1. */
function pick<T>(list: readonly [T, ...T[]], share: number): T {
  return list[Math.floor(share * list.length)] ?? list[0];
}
