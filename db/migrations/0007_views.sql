-- What people read: calls with their bodies, and the proofs.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- A body as text; one that is not valid UTF-8, or holds NUL, is shown escaped instead of failing the query.
CREATE FUNCTION madrugada.body_text(body bytea) RETURNS text
  LANGUAGE plpgsql IMMUTABLE
  AS $$
BEGIN
  RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN encode(body, 'escape');
END
$$;

-- One row per dispatch: its best outcome, by the order charged > recovered > refused > not_sent > unknown (rule R2).
CREATE VIEW madrugada.call AS
SELECT i.batch_key, i.task_id, t.key, i.seq, i.dispatch, i.scope, i.occurrence, i.attempt, i.slot, i.method, i.path, i.model, i.tag,
       o.kind, coalesce(madrugada.settles(o.kind), false) AS settled, coalesce(o.answers, false) AS answers, o.status, o.error,
       o.provider_request_id, o.message_id, o.input_tokens, o.output_tokens, o.cache_read_tokens, o.cache_write_5m_tokens, o.cache_write_1h_tokens,
       o.cost_usd, i.sent_at, i.deadline_at, o.received_at, o.completed_no, i.request_sha256,
       madrugada.body_text(i.request) AS request, madrugada.body_text(o.response) AS response
  FROM madrugada.call_intent i
  JOIN madrugada.task t ON t.id = i.task_id
  LEFT JOIN LATERAL (
    SELECT * FROM madrugada.call_outcome o
     WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
     ORDER BY array_position('{charged,recovered,refused,not_sent,unknown}'::madrugada.outcome_kind[], o.kind) LIMIT 1) o ON true;

-- The batch people mean by `ID` or `ID:VERSION`.
CREATE FUNCTION madrugada.batch_named(name text) RETURNS text
  LANGUAGE plpgsql STABLE SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  keys text[] := ARRAY(SELECT b.batch_key FROM batch b WHERE name IN (b.batch_key, b.id) ORDER BY b.created_at);
BEGIN
  IF cardinality(keys) = 1 THEN
    RETURN keys[1];
  END IF;
  RAISE EXCEPTION USING MESSAGE = CASE WHEN keys = '{}' THEN format('no batch %s', name)
    ELSE format('batch %s has several versions; say which: %s', name, array_to_string(keys, ', ')) END;
END
$$;

-- The charges the journal knows of, one row per dispatch: a recovered answer may be followed by the late original (rule R2), which then
-- stands for both.
CREATE VIEW madrugada.audit_journal_charges AS
SELECT o.batch_key, o.task_id, o.seq, o.dispatch, o.kind,
       -- a scalar look-up: an EXISTS here may be planned as a scan of every batch
       o.answers OR coalesce((
         SELECT r.answers FROM madrugada.call_outcome r
          WHERE r.batch_key = o.batch_key AND r.task_id = o.task_id AND r.seq = o.seq AND r.dispatch = o.dispatch AND r.kind = 'recovered'
       ), false) AS answers,
       o.provider_request_id, o.message_id, o.cost_usd, o.received_at
  FROM madrugada.call_outcome o
 WHERE o.kind = 'charged'
    OR (o.kind = 'recovered' AND NOT EXISTS (
      SELECT FROM madrugada.call_outcome c
       WHERE c.batch_key = o.batch_key AND c.task_id = o.task_id AND c.seq = o.seq AND c.dispatch = o.dispatch AND c.kind = 'charged'));

-- The lines the proofs read: of a bill imported again after it had grown, only the longer one counts.
CREATE VIEW madrugada.audit_bill_lines AS
SELECT b.batch_key, l.bill_id, l.line_no, l.provider_request_id, l.message_id, l.tag, l.at, l.model, l.cost_usd
  FROM madrugada.bill_line l
  JOIN madrugada.bill b ON b.id = l.bill_id
 WHERE NOT EXISTS (SELECT FROM madrugada.bill longer WHERE longer.continues = b.id);

-- Dispatches of which it is not known whether they were charged, named before the bill comes (invariant 6).
CREATE VIEW madrugada.audit_in_doubt AS
SELECT i.batch_key, t.key, i.task_id, i.seq, i.dispatch, i.model, i.slot, i.worker_id, i.sent_at, i.deadline_at,
       CASE WHEN w.ended_at IS NULL THEN i.deadline_at + interval '30 seconds' ELSE w.ended_at END AS waiting_until,
       i.worst_case_usd, u.error, i.tag,
       EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = i.batch_key AND l.tag = i.tag)
       OR EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = i.batch_key AND l.provider_request_id = u.provider_request_id) AS billed
  FROM madrugada.call_intent i
  JOIN madrugada.task t ON t.id = i.task_id
  LEFT JOIN madrugada.worker w ON w.id = i.worker_id
  LEFT JOIN madrugada.call_outcome u
    ON u.batch_key = i.batch_key AND u.task_id = i.task_id AND u.seq = i.seq AND u.dispatch = i.dispatch AND u.kind = 'unknown'
 WHERE NOT EXISTS (
   SELECT FROM madrugada.call_outcome o
    WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch AND madrugada.settles(o.kind));

-- Every line of the bill with the dispatch it belongs to: by our tag, which the intent recorded before anything was sent, else by the
-- provider's request id. A line of another batch on the same bill says whose it is. Each look-up takes one row, so that no line is counted
-- twice because an identifier was.
CREATE VIEW madrugada.audit_charges AS
SELECT l.batch_key, l.bill_id, l.line_no, l.provider_request_id, l.message_id, l.tag, l.at, l.model, l.cost_usd,
       coalesce(i.task_id, o.task_id) AS task_id, coalesce(i.seq, o.seq) AS seq, coalesce(i.dispatch, o.dispatch) AS dispatch,
       other.batch_key AS other_batch
  FROM madrugada.audit_bill_lines l
  LEFT JOIN LATERAL (
    SELECT i.task_id, i.seq, i.dispatch FROM madrugada.call_intent i WHERE i.batch_key = l.batch_key AND i.tag = l.tag LIMIT 1) i ON true
  LEFT JOIN LATERAL (
    SELECT o.task_id, o.seq, o.dispatch FROM madrugada.call_outcome o
     WHERE o.batch_key = l.batch_key AND o.provider_request_id = l.provider_request_id AND i.task_id IS NULL
     ORDER BY o.task_id, o.seq, o.dispatch LIMIT 1) o ON true
  LEFT JOIN LATERAL (
    SELECT x.batch_key FROM madrugada.call_intent x
     WHERE x.tag = l.tag AND x.batch_key <> l.batch_key AND i.task_id IS NULL AND o.task_id IS NULL LIMIT 1) other ON true;

-- Calls that the bill charges more than once. Named in doubt: the journal had said so before the bill came, by a dispatch without a settled
-- outcome or by a second recorded charge.
CREATE VIEW madrugada.audit_duplicate_charges AS
SELECT c.batch_key, t.key, c.task_id, c.seq, count(*) AS charges, sum(c.cost_usd) - max(c.cost_usd) AS paid_twice_usd,
       array_agg(DISTINCT c.dispatch) AS dispatches,
       EXISTS (SELECT FROM madrugada.audit_in_doubt d WHERE d.batch_key = c.batch_key AND d.task_id = c.task_id AND d.seq = c.seq)
       OR (SELECT count(*) > 1 FROM madrugada.audit_journal_charges j
            WHERE j.batch_key = c.batch_key AND j.task_id = c.task_id AND j.seq = c.seq) AS named_in_doubt
  FROM madrugada.audit_charges c
  JOIN madrugada.task t ON t.id = c.task_id
 GROUP BY c.batch_key, t.key, c.task_id, c.seq
HAVING count(*) > 1;

-- Calls and dollars of a batch, by the journal and by the bill. `charged` counts dispatches; `calls` those that answer a call.
CREATE VIEW madrugada.audit_batch_totals AS
SELECT b.batch_key, b.state, b.task_count AS tasks, t.completed, t.failed, j.calls, j.charged, r.refused, r.not_sent, d.in_doubt,
       j.journal_usd, j.unpriced, l.bill_charges, l.bill_usd, l.other_batches,
       (SELECT count(*) FROM madrugada.bill x WHERE x.batch_key = b.batch_key) AS bills
  FROM madrugada.batch b
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed
     FROM madrugada.task t WHERE t.batch_key = b.batch_key) t
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE j.answers) AS calls, count(*) AS charged, coalesce(sum(j.cost_usd), 0) AS journal_usd,
          count(*) FILTER (WHERE j.cost_usd IS NULL) AS unpriced
     FROM madrugada.audit_journal_charges j WHERE j.batch_key = b.batch_key) j
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE o.kind = 'refused') AS refused, count(*) FILTER (WHERE o.kind = 'not_sent') AS not_sent
     FROM madrugada.call_outcome o WHERE o.batch_key = b.batch_key) r
 CROSS JOIN LATERAL (SELECT count(*) AS in_doubt FROM madrugada.audit_in_doubt d WHERE d.batch_key = b.batch_key) d
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE c.other_batch IS NULL) AS bill_charges, sum(c.cost_usd) FILTER (WHERE c.other_batch IS NULL) AS bill_usd,
          count(c.other_batch) AS other_batches
     FROM madrugada.audit_charges c WHERE c.batch_key = b.batch_key) l;

-- Attempts and charges of each task.
CREATE VIEW madrugada.audit_task_charges AS
SELECT t.batch_key, t.key, t.item, t.position, t.state,
       (SELECT count(*) FROM madrugada.attempt a WHERE a.task_id = t.id) AS attempts,
       coalesce(j.calls, 0) AS calls, coalesce(j.charged, 0) AS charged, coalesce(j.journal_usd, 0) AS journal_usd, c.charges AS bill_charges, c.bill_usd
  FROM madrugada.task t
  LEFT JOIN (
   SELECT batch_key, task_id, count(*) FILTER (WHERE answers) AS calls, count(*) AS charged, sum(cost_usd) AS journal_usd
     FROM madrugada.audit_journal_charges GROUP BY batch_key, task_id
  ) j ON j.batch_key = t.batch_key AND j.task_id = t.id
  LEFT JOIN (
   SELECT batch_key, task_id, count(*) AS charges, sum(cost_usd) AS bill_usd FROM madrugada.audit_charges GROUP BY batch_key, task_id
  ) c ON c.batch_key = t.batch_key AND c.task_id = t.id;

-- Journal against bill, both ways: what has no counterpart, and what differs.
CREATE VIEW madrugada.audit_unmatched AS
SELECT c.batch_key,
       CASE WHEN c.task_id IS NULL THEN 'charged, but not in the journal'
            WHEN j.task_id IS NOT NULL THEN 'amount differs'
            WHEN EXISTS (SELECT FROM madrugada.call_outcome o
              WHERE o.batch_key = c.batch_key AND o.task_id = c.task_id AND o.seq = c.seq AND o.dispatch = c.dispatch AND madrugada.settles(o.kind))
            THEN 'charged, but refused or not sent by the journal'
            ELSE 'charged, but the journal has no answer: in doubt' END AS difference,
       t.key, c.task_id, c.seq, c.dispatch, c.bill_id, c.line_no, c.provider_request_id, c.cost_usd AS bill_usd, j.cost_usd AS journal_usd
  FROM madrugada.audit_charges c
  LEFT JOIN madrugada.task t ON t.id = c.task_id
  LEFT JOIN madrugada.audit_journal_charges j
    ON j.batch_key = c.batch_key AND j.task_id = c.task_id AND j.seq = c.seq AND j.dispatch = c.dispatch
 WHERE c.other_batch IS NULL AND (j.task_id IS NULL OR j.cost_usd IS DISTINCT FROM c.cost_usd)
UNION ALL
SELECT j.batch_key, 'in the journal, but not on the bill', t.key, j.task_id, j.seq, j.dispatch, NULL, NULL, j.provider_request_id, NULL, j.cost_usd
  FROM madrugada.audit_journal_charges j
  JOIN madrugada.task t ON t.id = j.task_id
  JOIN madrugada.call_intent i ON i.batch_key = j.batch_key AND i.task_id = j.task_id AND i.seq = j.seq AND i.dispatch = j.dispatch
 WHERE coalesce(j.cost_usd, 1) > 0
   AND EXISTS (SELECT FROM madrugada.bill b WHERE b.batch_key = j.batch_key)
   -- two look-ups by index: joined to audit_charges, this takes seconds where the tables have no statistics yet
   AND NOT EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = j.batch_key AND l.tag = i.tag)
   AND NOT EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = j.batch_key AND l.provider_request_id = j.provider_request_id);
