-- Proves what the batch cost: calls and dollars, by the journal (calls, charged, journal_usd) and by the provider's bill (bill_charges,
-- bill_usd). With every task finished and nothing in doubt, the two sides are equal. calls counts answered calls; charged counts paid
-- dispatches, also those that a person settled as charged: where it is larger, charges are known that answered nothing. bills is 0 while no
-- bill was imported; other_batches counts lines on the bill that belong to another batch of this database; unpriced counts charges whose
-- model has no price here.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/02-batch-totals.sql
SELECT batch_key, state, tasks, completed, failed, calls, charged, journal_usd, bill_charges, bill_usd, refused, not_sent, in_doubt, unpriced,
       bills, other_batches
  FROM madrugada.audit_batch_totals
 WHERE batch_key = (SELECT madrugada.batch_named(:'batch'));
