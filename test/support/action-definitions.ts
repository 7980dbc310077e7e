import { z } from 'zod';
import { type ActionDefinition, defineAction } from '../../src/action/define-action.ts';
import type { PostgresBefore, PostgresEffect } from '../../src/action/kinds/postgres.ts';
import { type Transfer, transferAction } from './transfer.ts';

type TransferAction = ActionDefinition<Transfer, PostgresBefore, PostgresEffect>;

const TRANSFER = z.object({ from: z.number(), to: z.number(), amount: z.string() });

/** A transfer as an agent declares it; a test may change any part. */
export function transferDefinition(changes: Partial<TransferAction> = {}): TransferAction {
  return defineAction({
    ...transferAction(),
    name: 'transfer',
    arguments: TRANSFER,
    intent: ({ from, to, amount }) => `move ${amount} from account ${from} to account ${to}`,
    permissions: ['UPDATE on bank.account'],
    blastRadius: 'two accounts of the bank',
    approval: 'person',
    expiresIn: 86_400_000,
    ...changes,
  });
}
