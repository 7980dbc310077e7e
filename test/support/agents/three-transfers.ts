import { z } from 'zod';
import { defineAction } from '../../../src/action/define-action.ts';
import { defineAgent } from '../../../src/index.ts';
import { transferAction } from '../transfer.ts';

const TRANSFER = z.object({ from: z.number(), to: z.number(), amount: z.string() });

const transfer = defineAction({
  ...transferAction(),
  name: 'transfer',
  arguments: TRANSFER,
  intent: 'moves money',
  permissions: ['UPDATE on bank.account'],
  blastRadius: 'two accounts of the bank',
  approval: 'none',
  expiresIn: 86_400_000,
});

/** Moves money as its input says, in three steps, and then fails. */
export default defineAgent({
  input: z.object({ transfers: z.array(TRANSFER) }),
  output: z.null(),
  actions: [transfer],
  async run(task) {
    for (const one of task.input.transfers) await task.action(transfer, one);
    throw new Error('the fourth step is impossible');
  },
});
