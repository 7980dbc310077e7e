-- The fall-back: after so many refusals of a call on account of its provider's trouble, another model is asked in the stead of its own
-- (batch.fall_back_model, batch.fall_back_after). The call stays the same call, with the digest of what the code asked; each dispatch says
-- which model it asked, and is held and priced as that.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- `model` and `request` are what went to the provider. Put asked_model in the place of `model` in `request`, and it is what the code asked.
ALTER TABLE madrugada.call_intent ADD COLUMN asked_model text;       -- the model the code asked; NULL: `model`

-- As in 0007_views.sql, and which model the code asked.
CREATE OR REPLACE VIEW madrugada.call AS
SELECT i.batch_key, i.task_id, t.key, i.seq, i.dispatch, i.scope, i.occurrence, i.attempt, i.slot, i.method, i.path, i.model, i.tag,
       o.kind, coalesce(madrugada.settles(o.kind), false) AS settled, coalesce(o.answers, false) AS answers, o.status, o.error,
       o.provider_request_id, o.message_id, o.input_tokens, o.output_tokens, o.cache_read_tokens, o.cache_write_5m_tokens, o.cache_write_1h_tokens,
       o.cost_usd, i.sent_at, i.deadline_at, o.received_at, o.completed_no, i.request_sha256,
       madrugada.body_text(i.request) AS request, madrugada.body_text(o.response) AS response,
       coalesce(i.asked_model, i.model) AS asked_model
  FROM madrugada.call_intent i
  JOIN madrugada.task t ON t.id = i.task_id
  LEFT JOIN LATERAL (
    SELECT * FROM madrugada.call_outcome o
     WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
     ORDER BY array_position('{charged,recovered,refused,not_sent,unknown}'::madrugada.outcome_kind[], o.kind) LIMIT 1) o ON true;

CREATE FUNCTION madrugada.audit_fall_back() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('batch', 'fall-back set', NEW.batch_key, NULL, NULL, NULL, NULL, NULL, NULL,
    format('%s after %s refusals of a call', NEW.fall_back_model, NEW.fall_back_after));
  RETURN NULL;
END
$$;
CREATE TRIGGER batch_fall_back_audit AFTER INSERT ON madrugada.batch
  FOR EACH ROW WHEN (NEW.fall_back_model IS NOT NULL) EXECUTE FUNCTION madrugada.audit_fall_back();
