-- Proves that journal and bill tell the same story, both ways: a charge the journal does not know, a charge of a dispatch in doubt, a
-- charge by the journal, or by a person's settlement, that is not on the bill, an amount that differs. None is the proof, provided that a
-- bill was imported.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/04-unmatched.sql
SELECT difference, key, seq, dispatch, provider_request_id, bill_usd, journal_usd, bill_id, line_no
  FROM madrugada.audit_unmatched
 WHERE batch_key = (SELECT madrugada.batch_named(:'batch'))
 ORDER BY difference, key, seq, dispatch, line_no;
