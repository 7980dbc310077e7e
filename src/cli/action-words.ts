import type { ActionState } from '../action/action-row.ts';
import { MadrugadaError } from '../errors.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A state as people say it: `needs a person`. */
export function stateWords(state: ActionState): string {
  return state === 'needs_person' ? 'needs a person' : state.replace('_', ' ');
}

/** A time span in its two largest units: `2 d 3 h`, `59 min`, `12 s`. */
export function spanWords(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const units: [number, string][] = [
    [Math.floor(whole / DAY), 'd'],
    [Math.floor((whole % DAY) / HOUR), 'h'],
    [Math.floor((whole % HOUR) / MINUTE), 'min'],
  ];
  const first = units.findIndex(([count]) => count > 0);
  if (first < 0) return `${whole} s`;
  return units
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ');
}

/** The number of an action as a command is given it. */
export function actionNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw new MadrugadaError(`"${text}" is no action: give the number that madrugada action list shows`);
  return Number(text);
}
