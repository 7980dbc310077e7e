import { loadavg } from 'node:os';

/** One measured value, and what it is to stay below. */
export interface Figure {
  what: string;
  unit: string;
  value: number;
  target?: number;
}

/** Prints figures with their targets, and how busy the machine was. */
export function printFigures(title: string, figures: Figure[]): void {
  const load = loadavg().map((value) => value.toFixed(2));
  process.stdout.write(`\n${title} (load average ${load.join(' ')})\n`);
  for (const { what, unit, value, target } of figures) {
    const verdict =
      target === undefined ? '' : `${target} ${unit}`.padStart(12) + (value < target ? '   met' : '   MISSED');
    process.stdout.write(
      `${what.padEnd(52)}${`${value.toFixed(unit === 'MB' ? 2 : 1)} ${unit}`.padStart(12)}${verdict}\n`,
    );
  }
}
