import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type ForkedSimulator, forkSimulator } from '../simulator/forked-simulator.ts';
import { testFolder } from './test-folder.ts';

/** A simulated provider of the running test alone, with a bill that begins empty; it ends with the test. */
export async function nightSimulator(): Promise<ForkedSimulator> {
  const simulator = await forkSimulator(join(testFolder(), 'bill.jsonl'));
  onTestFinished(async () => {
    await simulator.stop();
  });
  return simulator;
}
