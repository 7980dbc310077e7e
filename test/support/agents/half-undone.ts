import { Client } from 'pg';
import { z } from 'zod';
import { defineAgent } from '../../../src/agent/define-agent.ts';
import { transferDefinition } from '../action-definitions.ts';

/** Says that it is undone, and restores nothing. */
const transfer = transferDefinition({
  rollback: {
    kind: 'in-band',
    plan: 'say that it was undone',
    async undo(_undo, { key }) {
      const bank = new Client(process.env.BANK_URL);
      await bank.connect();
      await bank.query('UPDATE madrugada_action_key SET undone_at = clock_timestamp() WHERE key = $1', [key]);
      await bank.end();
    },
  },
});

/** An agent whose rollback does not restore: what a rehearsal is there to find. */
export default defineAgent({
  input: z.object({ from: z.number(), to: z.number(), amount: z.string() }),
  output: z.object({ state: z.string() }),
  actions: [transfer],
  run: async (task) => ({ state: (await task.action(transfer, task.input)).state }),
});
