import { afterAll, beforeAll } from 'vitest';
import { ACTION_KEY_TABLE } from '../../src/action/kinds/action-key-table.ts';
import { createEmptyDatabase, type TestDatabase } from './database.ts';

/** Somebody else's database for the calling test file: accounts, the bank's own ledger of what was moved, and the table of action keys. */
export function bankDatabase(): { db: TestDatabase } {
  const bank = {} as { db: TestDatabase };
  beforeAll(async () => {
    bank.db = await createEmptyDatabase();
    await bank.db.pool.query(BANK);
  });
  afterAll(() => bank.db?.drop());
  return bank;
}

/** The ledger is written by the bank, whoever changes an account and however. */
export const BANK = `
  SET search_path = public;
  CREATE SCHEMA bank;
  CREATE TABLE bank.account (id bigint PRIMARY KEY, owner text NOT NULL DEFAULT 'somebody',
    balance numeric(20, 2) NOT NULL CHECK (balance >= 0));
  CREATE TABLE bank.movement (account bigint NOT NULL, amount numeric(20, 2) NOT NULL,
    no bigint GENERATED ALWAYS AS IDENTITY);
  CREATE FUNCTION bank.record() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO bank.movement VALUES (NEW.id, NEW.balance - OLD.balance);
    RETURN NULL;
  END $$;
  CREATE TRIGGER record AFTER UPDATE OF balance ON bank.account FOR EACH ROW EXECUTE FUNCTION bank.record();
  ${ACTION_KEY_TABLE};
  RESET search_path;
`;
