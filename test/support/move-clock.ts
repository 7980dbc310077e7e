import type { Pool } from 'pg';

/**
 * Moves the clock of this database, as leases and deadlines see it, by `interval` (such as '11 minutes'); repeated moves add up.
 * Replaces `madrugada.now()`, which production lets nobody do.
 */
export async function moveClock({ pool }: { pool: Pool }, interval: string): Promise<void> {
  await pool.query(`
    CREATE TABLE IF NOT EXISTS public.clock_offset (offset_by interval NOT NULL);
    GRANT USAGE ON SCHEMA public TO PUBLIC;
    GRANT SELECT ON public.clock_offset TO PUBLIC;
    INSERT INTO public.clock_offset SELECT '0' WHERE NOT EXISTS (SELECT FROM public.clock_offset);
    CREATE OR REPLACE FUNCTION madrugada.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
      AS 'SELECT pg_catalog.statement_timestamp() + offset_by FROM public.clock_offset'`);
  await pool.query('UPDATE public.clock_offset SET offset_by = offset_by + $1::interval', [interval]);
}

/** Stops the clock of this database where it is: for what changes with time alone. */
export async function stopClock({ pool }: { pool: Pool }): Promise<void> {
  const { rows } = await pool.query<{ now: string }>('SELECT madrugada.now()::text AS now');
  await pool.query(`CREATE OR REPLACE FUNCTION madrugada.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT timestamptz '${rows[0]?.now}' $$`);
}
