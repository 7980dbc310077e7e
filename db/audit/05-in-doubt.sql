-- Names, before the bill comes, every dispatch of which it is not known whether it was charged: its answer did not arrive whole. These are
-- the only calls that can have been paid twice. waiting_until: until then a late answer may still settle it. billed: a bill has come, and
-- charges it. What a person has settled stands in audit_settled_doubts instead.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/05-in-doubt.sql
SELECT key, seq, dispatch, model, slot, sent_at, deadline_at, waiting_until, worst_case_usd, error, billed
  FROM madrugada.audit_in_doubt
 WHERE batch_key = (SELECT madrugada.batch_named(:'batch'))
 ORDER BY key, seq, dispatch;
