-- Proves that no model call was paid for twice. One row per call that the provider's bill charges more than once: none is the proof, provided
-- that a bill was imported (see bills in 02-batch-totals.sql). named_in_doubt: the journal had named the call before the bill came, so the
-- second charge belongs to the window that cannot be closed; false is a defect to report.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/01-duplicate-charges.sql
SELECT key, seq, charges, paid_twice_usd, dispatches, named_in_doubt
  FROM madrugada.audit_duplicate_charges
 WHERE batch_key = (SELECT madrugada.batch_named(:'batch'))
 ORDER BY key, seq;
