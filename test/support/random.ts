import { hash } from 'node:crypto';

/** Numbers in [0, 1) that only the seed decides. */
export function randomFrom(seed: number): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return Number.parseInt(hash('sha256', `${seed} ${drawn}`).slice(0, 12), 16) / 2 ** 48;
  };
}
