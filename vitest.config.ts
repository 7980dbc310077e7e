import { defineConfig } from 'vitest/config';
import LongestFirst from './test/support/longest-first.ts';

const results = process.env.VITEST_RESULTS;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // counts for whoever runs the suite from a script
    reporters: results ? ['default', ['json', { outputFile: results }]] : ['default'],
  },
});
