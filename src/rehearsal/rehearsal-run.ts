import type { Figures } from './figures.ts';
import type { Stage } from './stage.ts';

/** What must have come out of a run, beyond what must come out of every run. */
export interface Expectation {
  duplicates: number;
  /** Dispatches named in doubt before the bill was read. */
  inDoubt: number;
  /** Of the question at which things went wrong; undefined: any number. */
  attempts: number | undefined;
}

/** One run of the rehearsal: a night and what befalls it. */
export interface RehearsalRun {
  name: 'no-crash' | 'crash-215' | 'window' | 'crash-anywhere' | 'window-recovered' | 'slow-worker';
  /** Tasks by default; with `--full` every run has 400. */
  tasks: number;
  leaseSeconds?: number;
  providerFlags?: string[];
  environment?: Record<string, string>;
  lookUp?: boolean;
  /** Runs the night to its end. */
  perform(stage: Stage): Promise<void>;
  /** `figures` for runs whose outcome depends on the moment. */
  expect(figures: Figures): Expectation;
}
