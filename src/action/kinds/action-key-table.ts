/**
 * To be created once in a target database, by whoever owns it. The login of the actions needs SELECT, INSERT and UPDATE on it. A row is written
 * in the transaction of the effect: it is there exactly if the effect is, and a second effect with its key is impossible. `before` and `intended`
 * hold the columns concerned, and are what an undo restores from. `seq` is in the order of the effects on one row, since that row was locked.
 */
export const ACTION_KEY_TABLE = `CREATE TABLE madrugada_action_key (
  key text PRIMARY KEY CHECK (key ~ '^[0-9a-f]{64}$'),
  seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  relation text NOT NULL,
  before jsonb NOT NULL,
  intended jsonb NOT NULL,
  undone_at timestamptz
)`;
