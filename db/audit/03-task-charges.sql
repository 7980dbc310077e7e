-- Proves what each task cost: its attempts, the calls that answered it, and its charges by the journal and by the bill. A task that was
-- resumed has several attempts and still as many charges as calls: what was paid before the crash was replayed.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/03-task-charges.sql
SELECT position, item, state, attempts, calls, charged, journal_usd, bill_charges, bill_usd
  FROM madrugada.audit_task_charges
 WHERE batch_key = (SELECT madrugada.batch_named(:'batch'))
 ORDER BY position;
