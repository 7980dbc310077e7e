/** The middle one of the values, or the mean of the middle two. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const low = sorted[Math.ceil(middle) - 1] ?? Number.NaN;
  const high = sorted[Math.floor(middle)] ?? Number.NaN;
  return (low + high) / 2;
}

/** Seconds that `work` takes. */
export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

/** Prints rates with the ratio of the first to each: `what` names them, such as "calls". */
export function printRates(title: string, what: string, rates: Map<string, number[]>): void {
  const [ours = Number.NaN] = [...rates.values()].map(median);
  process.stdout.write(
    `\n${title}\n${'contender'.padEnd(24)}${`${what}/s`.padStart(10)}${'ours is'.padStart(12)}   rounds\n`,
  );
  for (const [name, values] of rates) {
    const rate = median(values);
    const rounds = values.map((value) => value.toFixed(0)).join(' ');
    process.stdout.write(
      `${name.padEnd(24)}${rate.toFixed(0).padStart(10)}${`${(ours / rate).toFixed(2)} x`.padStart(12)}   ${rounds}\n`,
    );
  }
}
