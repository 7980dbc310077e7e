-- A dispatch is in doubt until an outcome says whether it was charged, or a person does, by the provider's bill or by what the provider's
-- support says. A person's word is a settlement: kept beside the journal, never in it, and an outcome that comes later goes before it.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE TYPE madrugada.settlement_verdict AS ENUM ('charged', 'not_charged');

-- Refers to no other table, because it outlives the journal's partitions and the bills.
CREATE TABLE madrugada.settlement (
  batch_key  text NOT NULL,
  task_id    bigint NOT NULL,
  seq        integer NOT NULL,
  dispatch   integer NOT NULL,
  verdict    madrugada.settlement_verdict NOT NULL,
  cost_usd   numeric CHECK (cost_usd >= 0),
  pay_again  boolean NOT NULL DEFAULT false,                         -- charged, no answer to be had, and a person lets it be paid again
  bill_id    bigint,                                                 -- the bill that says so
  reason     text NOT NULL,
  settled_by text NOT NULL,
  settled_at timestamptz NOT NULL DEFAULT madrugada.now(),
  PRIMARY KEY (batch_key, task_id, seq, dispatch),
  CHECK ((verdict = 'charged') = (cost_usd IS NOT NULL)),
  CHECK (verdict = 'charged' OR NOT pay_again)
);
CREATE TRIGGER settlement_append_only BEFORE UPDATE OR DELETE ON madrugada.settlement
  FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();

ALTER TABLE madrugada.audit_event DROP CONSTRAINT audit_event_subject_check,
  ADD CONSTRAINT audit_event_subject_check CHECK (subject IN ('batch', 'task', 'worker', 'stop', 'bill', 'price', 'alert', 'doubt', 'budget'));

CREATE FUNCTION madrugada.audit_settlement() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('doubt', 'settled', NEW.batch_key, NEW.task_id, 'in doubt', replace(NEW.verdict::text, '_', ' '), NULL, NULL, NULL,
    format('call %s, dispatch %s%s%s: %s', NEW.seq, NEW.dispatch, ', US$ ' || NEW.cost_usd,
           CASE WHEN NEW.pay_again THEN ', to be paid again' END, NEW.reason));
  RETURN NULL;
END
$$;
CREATE TRIGGER settlement_audit AFTER INSERT ON madrugada.settlement FOR EACH ROW EXECUTE FUNCTION madrugada.audit_settlement();

-- May the sender of a dispatch without a settling outcome still bring its answer? Not when it gave up itself, or is proven dead, or its
-- deadline is 30 s past (rule R5).
CREATE FUNCTION madrugada.sender_at_work(i call_intent) RETURNS boolean
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  RETURN i.deadline_at + interval '30 seconds' >= now()
     AND NOT EXISTS (SELECT FROM worker w WHERE w.id = i.worker_id AND w.ended_at IS NOT NULL)
     AND NOT EXISTS (SELECT FROM call_outcome o
       WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch AND o.kind = 'unknown');
END
$$;

-- May another dispatch follow this one? Refused or not sent, or so by a person's word: yes. Answered: never. In doubt, or charged by a
-- person's word: when the policy allows paying again, or the person does, and no answer can be under way any more.
CREATE OR REPLACE FUNCTION madrugada.may_pay_again(i call_intent, policy doubt_policy) RETURNS boolean
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  kinds outcome_kind[] := ARRAY(
    SELECT o.kind FROM call_outcome o
     WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch);
BEGIN
  IF kinds && '{charged,recovered}' THEN
    RETURN false;
  END IF;
  IF kinds && '{refused,not_sent}' THEN
    RETURN true;
  END IF;
  IF EXISTS (SELECT FROM settlement s
              WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch
                AND (s.verdict = 'not_charged' OR s.pay_again)) THEN
    RETURN true;
  END IF;
  RETURN policy = 'pay_again' AND NOT sender_at_work(i);
END
$$;

-- A person settles a dispatch in doubt. Not before its sender is known to have stopped: an answer under way would be worth more than any
-- word, and another dispatch beside it could be paid twice.
CREATE FUNCTION madrugada.settle_doubt(
  the_batch text, the_task bigint, the_seq integer, the_dispatch integer, the_verdict settlement_verdict, usd numeric, paying_again boolean,
  the_bill bigint
) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  i call_intent%ROWTYPE;
  which text;
  known text;
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a doubt is settled by a person: it needs a name and a reason';
  END IF;
  SELECT format('dispatch %s of call %s of task %s', the_dispatch, the_seq, t.key) INTO which FROM task t WHERE t.id = the_task FOR UPDATE;
  SELECT * INTO i FROM call_intent c WHERE c.batch_key = the_batch AND c.task_id = the_task AND c.seq = the_seq AND c.dispatch = the_dispatch;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no %', coalesce(which, format('task %s', the_task));
  END IF;
  SELECT o.kind::text INTO known FROM call_outcome o
   WHERE o.batch_key = the_batch AND o.task_id = the_task AND o.seq = the_seq AND o.dispatch = the_dispatch AND settles(o.kind) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '% is not in doubt: the journal has it as %', which, replace(known, '_', ' ');
  END IF;
  SELECT format('%s by %s', replace(s.verdict::text, '_', ' '), s.settled_by) INTO known FROM settlement s
   WHERE s.batch_key = the_batch AND s.task_id = the_task AND s.seq = the_seq AND s.dispatch = the_dispatch;
  IF FOUND THEN
    RAISE EXCEPTION '% was settled already, as %', which, known;
  END IF;
  IF sender_at_work(i) THEN
    RAISE EXCEPTION '%: its sender may still be at work until %; settle it after that, or when the sender is known to have ended',
      which, to_char((i.deadline_at + interval '30 seconds') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
  END IF;
  INSERT INTO settlement (batch_key, task_id, seq, dispatch, verdict, cost_usd, pay_again, bill_id, reason, settled_by)
  VALUES (the_batch, the_task, the_seq, the_dispatch, the_verdict, usd, paying_again, the_bill, said('reason'), said('by'));
  PERFORM wake_task(the_task);
END
$$;

-- As before, and: charges by a person's word, where no outcome says otherwise. Their kind is NULL: the journal has no outcome of them.
CREATE OR REPLACE VIEW madrugada.audit_journal_charges AS
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
       WHERE c.batch_key = o.batch_key AND c.task_id = o.task_id AND c.seq = o.seq AND c.dispatch = o.dispatch AND c.kind = 'charged'))
UNION ALL
SELECT s.batch_key, s.task_id, s.seq, s.dispatch, NULL, false, u.provider_request_id, u.message_id, s.cost_usd, s.settled_at
  FROM madrugada.settlement s
  LEFT JOIN madrugada.call_outcome u
    ON u.batch_key = s.batch_key AND u.task_id = s.task_id AND u.seq = s.seq AND u.dispatch = s.dispatch AND u.kind = 'unknown'
 WHERE s.verdict = 'charged'
   AND NOT EXISTS (
     SELECT FROM madrugada.call_outcome o
      WHERE o.batch_key = s.batch_key AND o.task_id = s.task_id AND o.seq = s.seq AND o.dispatch = s.dispatch AND madrugada.settles(o.kind));

-- What a task has cost so far: as audit_journal_charges has it, so that the sum over the tasks of a batch is what audit_batch_totals says. Money
-- that a person knows to be spent is spent; an answer recovered, and come late as well, was paid for once.
CREATE OR REPLACE FUNCTION madrugada.journal_cost(the_batch text, the_task bigint) RETURNS numeric
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
    SELECT coalesce(sum(c.cost_usd), 0) FROM audit_journal_charges c WHERE c.batch_key = the_batch AND c.task_id = the_task
  $$;

CREATE OR REPLACE VIEW madrugada.audit_in_doubt AS
SELECT i.batch_key, t.key, i.task_id, i.seq, i.dispatch, i.model, i.slot, i.worker_id, i.sent_at, i.deadline_at,
       CASE WHEN w.ended_at IS NULL THEN i.deadline_at + interval '30 seconds' ELSE w.ended_at END AS waiting_until,
       i.worst_case_usd, u.error, i.tag,
       EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = i.batch_key AND l.tag = i.tag)
       OR EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = i.batch_key AND l.provider_request_id = u.provider_request_id) AS billed,
       u.batch_key IS NULL AND w.ended_at IS NULL AND i.deadline_at + interval '30 seconds' >= madrugada.now() AS sender_at_work
  FROM madrugada.call_intent i
  JOIN madrugada.task t ON t.id = i.task_id
  LEFT JOIN madrugada.worker w ON w.id = i.worker_id
  LEFT JOIN madrugada.call_outcome u
    ON u.batch_key = i.batch_key AND u.task_id = i.task_id AND u.seq = i.seq AND u.dispatch = i.dispatch AND u.kind = 'unknown'
 -- OFFSET 0: looked up by key for each dispatch; joined, each walks all of the others where the tables have no statistics yet
 WHERE NOT EXISTS (
   SELECT FROM madrugada.call_outcome o
    WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch AND madrugada.settles(o.kind) OFFSET 0)
   AND NOT EXISTS (
     SELECT FROM madrugada.settlement s
      WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch OFFSET 0);

-- What persons have settled. later_outcome: the journal has learned by itself since, and that counts.
CREATE VIEW madrugada.audit_settled_doubts AS
SELECT s.batch_key, t.key, s.task_id, s.seq, s.dispatch, i.model, i.sent_at, i.worst_case_usd, s.verdict, s.cost_usd, s.pay_again, s.bill_id,
       s.reason, s.settled_by, s.settled_at,
       (SELECT max(o.kind) FROM madrugada.call_outcome o
         WHERE o.batch_key = s.batch_key AND o.task_id = s.task_id AND o.seq = s.seq AND o.dispatch = s.dispatch AND madrugada.settles(o.kind)) AS later_outcome
  FROM madrugada.settlement s
  LEFT JOIN madrugada.task t ON t.id = s.task_id
  LEFT JOIN madrugada.call_intent i ON i.batch_key = s.batch_key AND i.task_id = s.task_id AND i.seq = s.seq AND i.dispatch = s.dispatch;

-- Named in doubt also: a call of which a person has settled a dispatch since.
CREATE OR REPLACE VIEW madrugada.audit_duplicate_charges AS
SELECT c.batch_key, t.key, c.task_id, c.seq, count(*) AS charges, sum(c.cost_usd) - max(c.cost_usd) AS paid_twice_usd,
       array_agg(DISTINCT c.dispatch) AS dispatches,
       EXISTS (SELECT FROM madrugada.audit_in_doubt d WHERE d.batch_key = c.batch_key AND d.task_id = c.task_id AND d.seq = c.seq)
       OR EXISTS (SELECT FROM madrugada.settlement s WHERE s.batch_key = c.batch_key AND s.task_id = c.task_id AND s.seq = c.seq)
       OR (SELECT count(*) > 1 FROM madrugada.audit_journal_charges j
            WHERE j.batch_key = c.batch_key AND j.task_id = c.task_id AND j.seq = c.seq) AS named_in_doubt
  FROM madrugada.audit_charges c
  JOIN madrugada.task t ON t.id = c.task_id
 GROUP BY c.batch_key, t.key, c.task_id, c.seq
HAVING count(*) > 1;

CREATE OR REPLACE VIEW madrugada.audit_unmatched AS
SELECT c.batch_key,
       CASE WHEN c.task_id IS NULL THEN 'charged, but not in the journal'
            WHEN j.task_id IS NOT NULL THEN 'amount differs'
            WHEN EXISTS (SELECT FROM madrugada.call_outcome o
              WHERE o.batch_key = c.batch_key AND o.task_id = c.task_id AND o.seq = c.seq AND o.dispatch = c.dispatch AND madrugada.settles(o.kind))
            THEN 'charged, but refused or not sent by the journal'
            WHEN EXISTS (SELECT FROM madrugada.settlement s
              WHERE s.batch_key = c.batch_key AND s.task_id = c.task_id AND s.seq = c.seq AND s.dispatch = c.dispatch)
            THEN 'charged, but settled as not charged'
            ELSE 'charged, but the journal has no answer: in doubt' END AS difference,
       t.key, c.task_id, c.seq, c.dispatch, c.bill_id, c.line_no, c.provider_request_id, c.cost_usd AS bill_usd, j.cost_usd AS journal_usd
  FROM madrugada.audit_charges c
  LEFT JOIN madrugada.task t ON t.id = c.task_id
  -- looked up by key for each line (OFFSET 0 keeps it so): joined, every line walks every charge where the tables have no statistics yet
  LEFT JOIN LATERAL (
    SELECT j.task_id, j.cost_usd FROM madrugada.audit_journal_charges j
     WHERE j.batch_key = c.batch_key AND j.task_id = c.task_id AND j.seq = c.seq AND j.dispatch = c.dispatch OFFSET 0) j ON true
 WHERE c.other_batch IS NULL AND (j.task_id IS NULL OR j.cost_usd IS DISTINCT FROM c.cost_usd)
UNION ALL
SELECT j.batch_key,
       CASE WHEN j.kind IS NULL THEN 'settled as charged, but not on the bill' ELSE 'in the journal, but not on the bill' END,
       t.key, j.task_id, j.seq, j.dispatch, NULL, NULL, j.provider_request_id, NULL, j.cost_usd
  FROM madrugada.audit_journal_charges j
  JOIN madrugada.task t ON t.id = j.task_id
  JOIN madrugada.call_intent i ON i.batch_key = j.batch_key AND i.task_id = j.task_id AND i.seq = j.seq AND i.dispatch = j.dispatch
 WHERE coalesce(j.cost_usd, 1) > 0
   AND EXISTS (SELECT FROM madrugada.bill b WHERE b.batch_key = j.batch_key)
   -- two look-ups by index: joined to audit_charges, this takes seconds where the tables have no statistics yet
   AND NOT EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = j.batch_key AND l.tag = i.tag)
   AND NOT EXISTS (SELECT FROM madrugada.audit_bill_lines l WHERE l.batch_key = j.batch_key AND l.provider_request_id = j.provider_request_id);

-- The most that could have been paid twice: of each call its dispatches in doubt beside the one charge it owes. Where none is known to have
-- been charged, nor a person has had the call paid anew, one of the doubts may be that charge: the cheapest, so that the rest is the most.
-- unbounded counts those without a worst-case price, which usd cannot hold.
CREATE VIEW madrugada.audit_exposure AS
SELECT b.batch_key, count(DISTINCT (x.task_id, x.seq)) FILTER (WHERE x.task_id IS NOT NULL) AS calls, count(x.task_id) AS dispatches, coalesce(sum(x.worst_case_usd), 0) AS usd,
       count(x.task_id) FILTER (WHERE x.worst_case_usd IS NULL) AS unbounded
  FROM madrugada.batch b
  LEFT JOIN LATERAL (
    SELECT d.task_id, d.seq, d.worst_case_usd,
           row_number() OVER (PARTITION BY d.task_id, d.seq ORDER BY d.worst_case_usd NULLS LAST) > 1
           OR EXISTS (SELECT FROM madrugada.audit_journal_charges j WHERE j.batch_key = d.batch_key AND j.task_id = d.task_id AND j.seq = d.seq)
           OR EXISTS (SELECT FROM madrugada.pay_again p WHERE p.task_id = d.task_id AND d.seq BETWEEN p.from_seq AND p.to_seq) AS is_extra
      FROM madrugada.audit_in_doubt d WHERE d.batch_key = b.batch_key) x ON x.is_extra
 GROUP BY b.batch_key;

GRANT SELECT ON madrugada.settlement, madrugada.audit_settled_doubts, madrugada.audit_exposure
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.sender_at_work(madrugada.call_intent)
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.settle_doubt(text, bigint, integer, integer, madrugada.settlement_verdict, numeric, boolean, bigint)
  TO madrugada_operator;
