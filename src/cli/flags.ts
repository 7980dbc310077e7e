import { InvalidArgumentError } from 'commander';

/** Parses an amount of dollars. Kept as text: money is never a float. */
export function dollars(text: string): string {
  if (!/^\d{1,9}(\.\d{1,6})?$/.test(text) || Number(text) === 0)
    throw new InvalidArgumentError('It must be dollars, such as 164.00.');
  return text;
}

/** Parses a flag that counts something. */
export function positiveInteger(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('It must be a whole number from 1 on.');
  return value;
}
