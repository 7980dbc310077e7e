import type { Pool } from 'pg';

/** A passage from one state to another. */
export type Passage = [from: string, to: string];

/** The tables whose states a guard function of the database watches. */
export const GUARDS = { batch: 'guard_batch_state', task: 'guard_task_state', action: 'guard_action' } as const;
export type Guarded = keyof typeof GUARDS;

/** The passages that a guard allows, as its definition in the database says. Throws when it lists none. */
export async function allowedPassages(pool: Pool, subject: Guarded): Promise<Passage[]> {
  const { rows } = await pool.query<{ body: string }>(
    `SELECT prosrc AS body FROM pg_proc WHERE pronamespace = 'madrugada'::regnamespace AND proname = $1`,
    [GUARDS[subject]],
  );
  const list = /\(OLD\.state, NEW\.state\) NOT IN \(([\s\S]*?)\) THEN/.exec(rows[0]?.body ?? '')?.[1] ?? '';
  const passages = [...list.matchAll(/\('(\w+)', '(\w+)'\)/g)].map(([, from = '', to = '']): Passage => [from, to]);
  if (passages.length === 0) throw new Error(`${GUARDS[subject]} lists no passages that can be read here`);
  return passages;
}

/** The values of an enum of schema `madrugada`, in its order. */
export async function enumValues(pool: Pool, type: string): Promise<string[]> {
  const { rows } = await pool.query<{ value: string }>(
    `SELECT enumlabel AS value FROM pg_enum WHERE enumtypid = ('madrugada.' || $1)::regtype ORDER BY enumsortorder`,
    [type],
  );
  return rows.map(({ value }) => value);
}
