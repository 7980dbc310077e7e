import { hash } from 'node:crypto';
import { draw } from './fault-shares.ts';

/** Sub-calls of one question, whatever its plan. */
export const SUB_CALLS = 18;
/** The turns that read by sub-calls: the first turn only looks, and the one after these answers. */
const READING_TURNS = [2, 3, 4, 5, 6];
/** The most sub-calls of one turn, and of one that makes them one after the other: a root that is told to batch does. */
const MAX_PARTS = 8;
const MAX_PARTS_IN_TURN = 2;
/** A question's programs are written in few styles, so that helpers defined once are used again: this many of each kind of round. */
const PALETTE_SIZE = 2;
/** The share of questions with a program that does not parse. */
const SYNTAX_ERROR_SHARE = 0.2;

/** One turn's share of the sub-calls. */
export type Round = {
  /** 1 for the first turn with sub-calls. */
  readonly number: number;
  /** Sub-calls of the rounds before. */
  readonly first: number;
  /** Sub-calls of this round. */
  readonly count: number;
  /** Which of the styles on offer its program is written in. */
  readonly style: number;
  /** Whether an earlier round of the question is in the same style. */
  readonly again: boolean;
};

/** How the turns of one question go. */
export type RootPlan = {
  /** Rounds by the turn that runs them. */
  readonly rounds: ReadonlyMap<number, Round>;
  /** The turn whose program does not parse, if any: the next turn runs it repaired. */
  readonly brokenTurn: number | undefined;
  /** A number in [0, 1) for every other choice, the same for the same question and purpose. */
  readonly drawn: (purpose: string) => number;
};

/**
 * The plan of `question`, drawn from its digest. `areConcurrent` says of each style of reading programs whether it makes its sub-calls at the
 * same time; every other round is of such a style, so that there is room for all of them.
 */
export function planOf(question: string, areConcurrent: readonly boolean[]): RootPlan {
  const digest = hash('sha256', question, 'hex');
  const drawn = (purpose: string, nth = 0) => draw('root', purpose, digest, nth);
  // Not the last of them, whose repair would be the turn that answers.
  const spoilt = READING_TURNS[Math.floor(drawn('spoilt turn') * (READING_TURNS.length - 1))];
  const brokenTurn = drawn('broken') < SYNTAX_ERROR_SHARE ? spoilt : undefined;
  const turns = READING_TURNS.filter((turn) => turn !== brokenTurn);
  const all = [...areConcurrent.keys()];
  const concurrent = all.filter((style) => areConcurrent[style]);
  const palettes = [concurrent, all].map((styles, kind) =>
    Array.from(
      { length: PALETTE_SIZE },
      (_, n) => styles[Math.floor(drawn(`palette ${kind}`, n) * styles.length)] ?? 0,
    ),
  );
  const styles = turns.map((_, index) => palettes[index % 2]?.[Math.floor(drawn('style', index) * PALETTE_SIZE)] ?? 0);
  const rooms = styles.map((style) => (areConcurrent[style] ? MAX_PARTS : MAX_PARTS_IN_TURN));
  const counts = shareOut(rooms, (nth) => drawn('count', nth));
  const rounds = new Map<number, Round>();
  const used = new Set<number>();
  let first = 0;
  for (const [index, turn] of turns.entries()) {
    const style = styles[index] ?? 0;
    const count = counts[index] ?? 0;
    rounds.set(turn, { number: index + 1, first, count, style, again: used.has(style) });
    used.add(style);
    first += count;
  }
  return { rounds, brokenTurn, drawn };
}

/** All sub-calls over rounds with room for so many: at least one for each, the others where they are drawn to. */
function shareOut(rooms: readonly number[], drawn: (nth: number) => number): number[] {
  const counts: number[] = Array(rooms.length).fill(1);
  for (let left = SUB_CALLS - rooms.length; left > 0; left -= 1) {
    const open = [...counts.keys()].filter((round) => (counts[round] ?? 0) < (rooms[round] ?? 0));
    const round = open[Math.floor(drawn(left) * open.length)] ?? 0;
    counts[round] = (counts[round] ?? 0) + 1;
  }
  return counts;
}
