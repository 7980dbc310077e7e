import type { Pool } from 'pg';

/** Requests that the provider's bucket holds: a fleet that was told to pause finds it full again. */
export const BURST = 5;

/**
 * Arrivals counted against the announced limit: per model, in every window of so many seconds that begins with an arrival since the model's
 * first refusal over the limit. The headers announce L requests a minute, so no minute may bring more, those included that went out before
 * their senders could know. In a shorter window L / 60 a second may come, and what the bucket holds beside.
 */
const busiestWindow = (seconds: number) => `
  SELECT a.model, max(a.arrivals) AS arrivals
    FROM (SELECT model, received_at,
                 count(*) OVER (PARTITION BY model ORDER BY received_at
                                RANGE BETWEEN CURRENT ROW AND interval '${seconds} seconds' FOLLOWING) AS arrivals
            FROM arrival) a
   WHERE a.received_at >= (SELECT min(f.received_at) FROM arrival f WHERE f.model = a.model AND f.fate = 'over the limit')
   GROUP BY a.model`;

/**
 * What a troubled night must leave behind: each query finds the rows that contradict its claim. $1 is the batch, $2 the announced requests a
 * minute. `arrival` is what the provider saw come in; `named` is the list of doubts as it was before the bill.
 */
export const CLAIMS: Record<string, string> = {
  'every task is completed': `
    SELECT key, state, waiting_for, failure FROM madrugada.task WHERE batch_key = $1 AND state <> 'completed'`,

  'every line of the bill meets a dispatch, and they agree; what is only on the bill was named in doubt': `
    SELECT u.difference, u.key, u.seq, u.dispatch, u.line_no FROM madrugada.audit_unmatched u
     WHERE u.batch_key = $1
       AND NOT (u.difference = 'charged, but the journal has no answer: in doubt'
                AND (u.task_id, u.seq, u.dispatch) IN (SELECT task_id, seq, dispatch FROM named))`,

  'every charge of which the journal knows no answer is in the list of doubts': `
    SELECT l.tag, l.line_no FROM madrugada.bill_line l
     WHERE l.tag NOT IN (SELECT tag FROM named)
       AND l.tag NOT IN (SELECT i.tag FROM madrugada.call_intent i JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
                          WHERE i.batch_key = $1 AND o.kind = 'charged')`,

  'every unknown ending is in the list of doubts': `
    SELECT i.task_id, i.seq, i.dispatch FROM madrugada.call_intent i
      LEFT JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
     WHERE i.batch_key = $1 AND i.tag NOT IN (SELECT tag FROM named)
     GROUP BY i.task_id, i.seq, i.dispatch HAVING NOT coalesce(bool_or(o.kind IN ('charged', 'refused', 'not_sent')), false)`,

  'no dispatch is on the bill twice': `
    SELECT tag, count(*) FROM madrugada.bill_line GROUP BY tag HAVING count(*) > 1`,

  'no call is paid twice outside the list of doubts': `
    SELECT c.task_id, c.seq, count(*) AS charges FROM madrugada.audit_charges c
     WHERE c.batch_key = $1 AND (c.task_id, c.seq, c.dispatch) NOT IN (SELECT task_id, seq, dispatch FROM named)
     GROUP BY c.task_id, c.seq HAVING count(*) > 1`,

  'what was paid twice stays below the exposure that was announced': `
    SELECT d.twice, x.usd FROM (SELECT sum(paid_twice_usd) AS twice FROM madrugada.audit_duplicate_charges WHERE batch_key = $1) d,
           exposed x WHERE d.twice > x.usd`,

  'the provider had every dispatch that the journal says was answered or refused, and no other': `
    SELECT coalesce(i.tag, a.tag) AS tag, a.fate, i.kind
      FROM arrival a
      FULL JOIN (SELECT i.tag, min(o.kind) AS kind FROM madrugada.call_intent i
                   JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
                  WHERE i.batch_key = $1 AND o.kind <> 'not_sent' GROUP BY i.tag) i USING (tag)
     WHERE a.tag IS NULL AND i.kind <> 'unknown' OR i.tag IS NULL`,

  'in no minute after the first refusal more than 105% of the announced rate arrive': `
    SELECT * FROM (${busiestWindow(60)}) busiest WHERE arrivals > 1.05 * $2::integer`,

  'in no 10 s after the first refusal more than 105% of the announced rate arrive, beside what the bucket holds': `
    SELECT * FROM (${busiestWindow(10)}) busiest WHERE arrivals > 1.05 * $2::integer * 10 / 60 + ${BURST}`,

  'every dispatch has its outcome by its deadline and the margin of 30 s': `
    SELECT i.task_id, i.seq, i.dispatch, i.deadline_at, min(o.received_at) AS first_outcome FROM madrugada.call_intent i
      LEFT JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch)
     WHERE i.batch_key = $1
     GROUP BY i.task_id, i.seq, i.dispatch, i.deadline_at
    HAVING min(o.received_at) IS NULL OR min(o.received_at) > i.deadline_at + interval '30 seconds'`,
};

/** Figures of the night, each one row of `words` and `number`. Parameters as in CLAIMS. */
export const FIGURES = `
  SELECT 'dispatches' AS words, count(*)::text AS number FROM madrugada.call_intent WHERE batch_key = $1 AND $2::integer > 0
  UNION ALL SELECT 'arrivals at the provider', count(*)::text FROM arrival
  UNION ALL SELECT 'arrivals over the limit', count(*)::text FROM arrival WHERE fate = 'over the limit'
  UNION ALL SELECT 'charges', count(*)::text FROM madrugada.audit_charges WHERE batch_key = $1
  UNION ALL SELECT 'dispatches named in doubt', count(*)::text FROM named
  UNION ALL SELECT 'calls paid twice', count(*)::text FROM madrugada.audit_duplicate_charges WHERE batch_key = $1
  UNION ALL SELECT 'US$ paid twice', coalesce(sum(paid_twice_usd), 0)::text FROM madrugada.audit_duplicate_charges WHERE batch_key = $1
  UNION ALL SELECT 'US$ exposed at most, as announced', trim_scale(usd)::text FROM exposed
  UNION ALL SELECT 'most arrivals of ' || model || ' in a minute', arrivals::text FROM (${busiestWindow(60)}) busiest
  UNION ALL SELECT 'most arrivals of ' || model || ' in 10 s', arrivals::text FROM (${busiestWindow(10)}) busiest
  UNION ALL SELECT 'longest dispatch in s', round(extract(epoch FROM max(o.received_at - i.sent_at)), 1)::text
              FROM madrugada.call_intent i JOIN madrugada.call_outcome o USING (batch_key, task_id, seq, dispatch) WHERE i.batch_key = $1
  UNION ALL SELECT 'attempts', count(*)::text FROM madrugada.attempt a JOIN madrugada.task t ON t.id = a.task_id WHERE t.batch_key = $1`;

/** The claims that the database contradicts, each with its first rows. */
export async function contradictedClaims(pool: Pool, batchKey: string, perMinute: number): Promise<string[]> {
  const contradicted: string[] = [];
  for (const [claim, sql] of Object.entries(CLAIMS)) {
    const { rows } = await pool.query({
      text: `SELECT x.* FROM (${sql}) x WHERE $1::text <> '' AND $2::integer > 0`,
      values: [batchKey, perMinute],
    });
    if (rows.length > 0)
      contradicted.push(`not so: ${claim}: ${rows.length} rows, such as ${JSON.stringify(rows.slice(0, 3))}`);
  }
  return contradicted;
}
