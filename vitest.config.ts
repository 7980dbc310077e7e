import { defineConfig } from 'vitest/config';

const results = process.env.VITEST_RESULTS;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // counts for whoever runs the suite from a script
    reporters: results ? ['default', ['json', { outputFile: results }]] : ['default'],
  },
});
