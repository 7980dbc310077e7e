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

-- Dispatches of which it is not known whether they were charged, named before the bill comes (invariant 6).
CREATE VIEW madrugada.audit_in_doubt AS
SELECT i.batch_key, t.key, i.task_id, i.seq, i.dispatch, i.model, i.slot, i.worker_id, i.sent_at, i.deadline_at,
       CASE WHEN w.ended_at IS NULL THEN i.deadline_at + interval '30 seconds' ELSE w.ended_at END AS waiting_until,
       i.tag,
       EXISTS (SELECT FROM madrugada.bill_line l JOIN madrugada.bill b ON b.id = l.bill_id WHERE l.tag = i.tag AND b.batch_key = i.batch_key) AS billed
  FROM madrugada.call_intent i
  JOIN madrugada.task t ON t.id = i.task_id
  LEFT JOIN madrugada.worker w ON w.id = i.worker_id
 WHERE NOT EXISTS (
   SELECT FROM madrugada.call_outcome o
    WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch AND madrugada.settles(o.kind));

-- Every line of the bill with the dispatch it belongs to: by the provider's request id, else by our tag, which the intent recorded
-- before anything was sent.
CREATE VIEW madrugada.audit_charges AS
SELECT b.batch_key, l.bill_id, l.line_no, l.provider_request_id, l.message_id, l.tag, l.at, l.model, l.cost_usd,
       coalesce(o.task_id, i.task_id) AS task_id, coalesce(o.seq, i.seq) AS seq, coalesce(o.dispatch, i.dispatch) AS dispatch
  FROM madrugada.bill_line l
  JOIN madrugada.bill b ON b.id = l.bill_id
  LEFT JOIN madrugada.call_outcome o
    ON o.batch_key = b.batch_key AND o.provider_request_id = l.provider_request_id AND o.kind IN ('charged', 'recovered')
  LEFT JOIN madrugada.call_intent i ON i.batch_key = b.batch_key AND i.tag = l.tag;

-- Calls that the bill charges more than once.
CREATE VIEW madrugada.audit_duplicate_charges AS
SELECT c.batch_key, t.key, c.task_id, c.seq, count(*) AS charges, sum(c.cost_usd) - max(c.cost_usd) AS paid_twice_usd,
       array_agg(DISTINCT c.dispatch) AS dispatches,
       EXISTS (SELECT FROM madrugada.audit_in_doubt d WHERE d.batch_key = c.batch_key AND d.task_id = c.task_id AND d.seq = c.seq) AS named_in_doubt
  FROM madrugada.audit_charges c
  JOIN madrugada.task t ON t.id = c.task_id
 GROUP BY c.batch_key, t.key, c.task_id, c.seq
HAVING count(*) > 1;

-- Calls and dollars of a batch, by the journal and by the bill.
CREATE VIEW madrugada.audit_batch_totals AS
SELECT b.batch_key, b.state, b.task_count AS tasks, t.completed, t.failed, j.calls, j.charged, j.refused, j.not_sent, d.in_doubt,
       j.journal_usd, j.unpriced, l.bill_charges, l.bill_usd
  FROM madrugada.batch b
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed
     FROM madrugada.task t WHERE t.batch_key = b.batch_key) t
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE o.answers) AS calls, count(*) FILTER (WHERE o.kind IN ('charged', 'recovered')) AS charged,
          count(*) FILTER (WHERE o.kind = 'refused') AS refused, count(*) FILTER (WHERE o.kind = 'not_sent') AS not_sent,
          coalesce(sum(o.cost_usd), 0) AS journal_usd,
          count(*) FILTER (WHERE o.kind IN ('charged', 'recovered') AND o.cost_usd IS NULL) AS unpriced
     FROM madrugada.call_outcome o WHERE o.batch_key = b.batch_key) j
 CROSS JOIN LATERAL (SELECT count(*) AS in_doubt FROM madrugada.audit_in_doubt d WHERE d.batch_key = b.batch_key) d
 CROSS JOIN LATERAL (
   SELECT count(*) AS bill_charges, sum(l.cost_usd) AS bill_usd
     FROM madrugada.bill_line l JOIN madrugada.bill x ON x.id = l.bill_id WHERE x.batch_key = b.batch_key) l;

-- Attempts and charges of each task.
CREATE VIEW madrugada.audit_task_charges AS
SELECT t.batch_key, t.key, t.item, t.position, t.state,
       (SELECT count(*) FROM madrugada.attempt a WHERE a.task_id = t.id) AS attempts,
       j.calls, j.charged, j.journal_usd, c.charges AS bill_charges, c.bill_usd
  FROM madrugada.task t
 CROSS JOIN LATERAL (
   SELECT count(*) FILTER (WHERE o.answers) AS calls, count(*) FILTER (WHERE o.kind IN ('charged', 'recovered')) AS charged,
          coalesce(sum(o.cost_usd), 0) AS journal_usd
     FROM madrugada.call_outcome o WHERE o.batch_key = t.batch_key AND o.task_id = t.id) j
  LEFT JOIN (
   SELECT batch_key, task_id, count(*) AS charges, sum(cost_usd) AS bill_usd FROM madrugada.audit_charges GROUP BY batch_key, task_id
  ) c ON c.batch_key = t.batch_key AND c.task_id = t.id;

-- Journal against bill, both ways: what has no counterpart, and what differs.
CREATE VIEW madrugada.audit_unmatched AS
SELECT c.batch_key,
       CASE WHEN c.task_id IS NULL THEN 'charged, but not in the journal'
            WHEN o.task_id IS NULL THEN 'charged, but the journal has no answer: in doubt'
            ELSE 'amount differs' END AS difference,
       t.key, c.task_id, c.seq, c.dispatch, c.bill_id, c.line_no, c.provider_request_id, c.cost_usd AS bill_usd, o.cost_usd AS journal_usd
  FROM madrugada.audit_charges c
  LEFT JOIN madrugada.task t ON t.id = c.task_id
  LEFT JOIN madrugada.call_outcome o
    ON o.batch_key = c.batch_key AND o.task_id = c.task_id AND o.seq = c.seq AND o.dispatch = c.dispatch AND o.kind IN ('charged', 'recovered')
 WHERE o.task_id IS NULL OR o.cost_usd IS DISTINCT FROM c.cost_usd
UNION ALL
SELECT o.batch_key, 'in the journal, but not on the bill', t.key, o.task_id, o.seq, o.dispatch, NULL, NULL, o.provider_request_id, NULL, o.cost_usd
  FROM madrugada.call_outcome o
  JOIN madrugada.task t ON t.id = o.task_id
  JOIN madrugada.call_intent i ON i.batch_key = o.batch_key AND i.task_id = o.task_id AND i.seq = o.seq AND i.dispatch = o.dispatch
 WHERE o.kind IN ('charged', 'recovered') AND coalesce(o.cost_usd, 1) > 0
   AND EXISTS (SELECT FROM madrugada.bill b WHERE b.batch_key = o.batch_key)
   AND NOT EXISTS (
     SELECT FROM madrugada.bill_line l JOIN madrugada.bill b ON b.id = l.bill_id
      WHERE b.batch_key = o.batch_key AND l.provider_request_id = o.provider_request_id)
   AND NOT EXISTS (
     SELECT FROM madrugada.bill_line l JOIN madrugada.bill b ON b.id = l.bill_id WHERE b.batch_key = o.batch_key AND l.tag = i.tag);
