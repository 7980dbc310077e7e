-- Who may do what. Workers insert into the journal and nothing else there; they change tasks only through the lease functions.
-- Auditors only read. Nobody but the owner's triggers inserts into audit_event.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

GRANT SELECT ON ALL TABLES IN SCHEMA madrugada TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT SELECT, USAGE ON SEQUENCE madrugada.journal_no TO madrugada_worker;

GRANT INSERT ON madrugada.call_intent, madrugada.call_outcome, madrugada.step_record TO madrugada_worker;
GRANT INSERT ON madrugada.incoming_task, madrugada.bill, madrugada.bill_line TO madrugada_operator;
GRANT INSERT, UPDATE ON madrugada.model_price TO madrugada_operator;

-- Functions that only compute or look.
GRANT EXECUTE ON FUNCTION
  madrugada.now(), madrugada.said(text), madrugada.is_stopped(), madrugada.next_claimable_at(text), madrugada.journal_cost(text, bigint),
  madrugada.slot_lock_class(), madrugada.slot_lock_key(text), madrugada.slot_is_locked_by(text, bigint), madrugada.settles(madrugada.outcome_kind),
  madrugada.body_text(bytea), madrugada.batch_named(text), madrugada.may_pay_again(madrugada.call_intent, madrugada.doubt_policy)
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;

-- Workers, and the supervisor of a night that reaps them.
GRANT EXECUTE ON FUNCTION
  madrugada.register_worker(text, text, integer, bigint), madrugada.claim_task(text, text, bigint, text, integer),
  madrugada.heartbeat(bigint, bigint[], bigint[], boolean[]), madrugada.complete_task(bigint, bigint, bigint, jsonb, integer),
  madrugada.end_attempt(bigint, bigint, bigint, madrugada.attempt_ending, jsonb, boolean, timestamptz, text, integer),
  madrugada.sweep_expired_leases(timestamptz), madrugada.release_silent_workers(), madrugada.end_worker(bigint, text),
  madrugada.leave_worker(bigint, text), madrugada.wake_task(bigint), madrugada.release_unknown_claims(text, bigint, bigint[]),
  madrugada.stop_batch(text, text), madrugada.check_server_identity()
  TO madrugada_worker, madrugada_operator;

-- People who operate.
GRANT EXECUTE ON FUNCTION
  madrugada.load_batch(text, text, text, jsonb, text, integer, numeric, integer, integer, madrugada.doubt_policy),
  madrugada.resume_batch(text), madrugada.close_batch(text, boolean), madrugada.retry_task(bigint, integer),
  madrugada.stop_everything(text), madrugada.lift_stop(), madrugada.confirm_server_identity()
  TO madrugada_operator;
