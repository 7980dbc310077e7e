import { expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import { testFolder } from '../support/test-folder.ts';
import { runTroubledNight } from './run-troubled-night.ts';

const PATIENCE_MS = 240_000;
const KINDS_AT_LEAST = 12;

test(
  'a night in which a fifth of the dispatches meet trouble is completed, paid once but for the doubts, within the announced rate',
  async () => {
    const db = await createTestDatabase();
    try {
      const counts = { tasks: 32, workers: 3, concurrency: 8 };
      const night = await runTroubledNight({ url: db.url, pool: db.pool, folder: testFolder(), seed: '7', ...counts });
      expect(night.problems).toEqual([]);
      expect(night.fates.get('over the limit')).toBeGreaterThan(0);
      expect(night.fates.size).toBeGreaterThan(KINDS_AT_LEAST);
    } finally {
      await db.drop();
    }
  },
  PATIENCE_MS,
);
