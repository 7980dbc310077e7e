-- The journal's own rules, kept by the database whoever writes: the fence, the order of settling, partitions.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- A dispatch is settled when it is known whether it was charged. Without a settling outcome it is in doubt.
CREATE FUNCTION madrugada.settles(kind outcome_kind) RETURNS boolean
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT kind <> 'unknown' $$;

-- Invariants 3, 4 and 5 and rule R1, at the only door through which a dispatch starts. The row lock makes a takeover wait for this
-- intent's commit, or this intent see the takeover. A refused intent is skipped, not an error: the writer sees no row back and sends
-- nothing, while the other intents of its group go through.
CREATE FUNCTION madrugada.fence_intent() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  b batch%ROWTYPE;
BEGIN
  -- By id alone: beside other conditions the planner may take a small index of running tasks, full of dead entries after a long night.
  SELECT * INTO t FROM task WHERE id = NEW.task_id FOR SHARE;
  IF t.state IS DISTINCT FROM 'running' OR t.batch_key <> NEW.batch_key OR t.lease_token <> NEW.lease_token
     OR t.worker_id <> NEW.worker_id OR t.lease_expires_at <= now() THEN
    RETURN NULL;
  END IF;
  SELECT * INTO b FROM batch WHERE batch_key = NEW.batch_key;
  IF b.state IS DISTINCT FROM 'open' OR is_stopped() THEN
    RETURN NULL;
  END IF;
  IF NEW.dispatch > 1 AND EXISTS (
    SELECT FROM call_intent i
     WHERE i.batch_key = NEW.batch_key AND i.task_id = NEW.task_id AND i.seq = NEW.seq AND i.dispatch < NEW.dispatch
       AND NOT may_pay_again(i, b.doubt_policy)
  ) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END
$$;

-- May another dispatch follow this one? Refused or not sent: yes. Answered: never. In doubt: only when the policy allows paying again
-- and no answer can be under way any more: its sender gave it up itself, or is proven dead, or its deadline is 30 s past (rule R5).
CREATE FUNCTION madrugada.may_pay_again(i call_intent, policy doubt_policy) RETURNS boolean
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
  RETURN policy = 'pay_again' AND (
    kinds && '{unknown}'
    OR i.deadline_at + interval '30 seconds' < now()
    OR EXISTS (SELECT FROM worker w WHERE w.id = i.worker_id AND w.ended_at IS NOT NULL));
END
$$;
CREATE TRIGGER intent_fence BEFORE INSERT ON madrugada.call_intent FOR EACH ROW EXECUTE FUNCTION madrugada.fence_intent();

-- Values recorded by one who has lost the lease would not be those its successor's code saw.
CREATE FUNCTION madrugada.fence_step() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  PERFORM FROM task t
   WHERE t.id = NEW.task_id AND t.batch_key = NEW.batch_key AND t.state = 'running'
     AND t.lease_token = NEW.lease_token AND t.worker_id = NEW.worker_id
     FOR SHARE OF t;
  RETURN CASE WHEN FOUND THEN NEW END;
END
$$;
CREATE TRIGGER step_fence BEFORE INSERT ON madrugada.step_record FOR EACH ROW EXECUTE FUNCTION madrugada.fence_step();

-- The first charged outcome of a call answers it. Of two at once the unique index refuses one, whose writer repeats it and then finds the
-- other (rule R2): no charged outcome is ever dropped.
CREATE FUNCTION madrugada.choose_answer() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  NEW.answers := NEW.kind IN ('charged', 'recovered') AND NOT EXISTS (
    SELECT FROM call_outcome o WHERE o.batch_key = NEW.batch_key AND o.task_id = NEW.task_id AND o.seq = NEW.seq AND o.answers);
  RETURN NEW;
END
$$;
CREATE TRIGGER outcome_answer BEFORE INSERT ON madrugada.call_outcome FOR EACH ROW EXECUTE FUNCTION madrugada.choose_answer();

-- The partitions of one batch: made apart, then attached, because creating in place queues behind an export and workers behind it (rule R9).
CREATE FUNCTION madrugada.create_partitions(the_batch text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET lock_timeout = '300ms'
  AS $$
DECLARE
  part integer := (SELECT number FROM batch WHERE batch_key = the_batch);
  parent text;
BEGIN
  IF part IS NULL THEN
    RAISE EXCEPTION 'no batch %', the_batch;
  END IF;
  FOREACH parent IN ARRAY ARRAY['call_intent', 'call_outcome', 'step_record'] LOOP
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)', parent || '_' || part, parent);
    -- spares ATTACH the scan
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT of_batch CHECK (batch_key = %L)', parent || '_' || part, the_batch);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%L)', parent, parent || '_' || part, the_batch);
  END LOOP;
END
$$;
