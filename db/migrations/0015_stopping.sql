-- Stopping and alerts. A stop reaches the workers at once (channel madrugada_stop), and the fence in any case. What the program stops by
-- itself raises an alert in the same transaction; only a person opens it again, and says who and why.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE TABLE madrugada.alert (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  raised_at       timestamptz NOT NULL DEFAULT madrugada.now(),
  kind            text NOT NULL,                                     -- such as 'account', 'agent', 'budget', 'velocity', 'failures'
  batch_key       text,                                              -- NULL: of no single batch
  task_id         bigint,
  message         text NOT NULL,
  acknowledged_at timestamptz,
  acknowledged_by text,
  ack_note        text,
  CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
-- Sixty-four slots meet the same expired key in the same second: that is one alert.
CREATE UNIQUE INDEX alert_open ON madrugada.alert (kind, batch_key) NULLS NOT DISTINCT WHERE acknowledged_at IS NULL;

-- The way of each alert to each channel that somebody has set up. next_at is put off before a try, so that one that dies leaves it to the next.
CREATE TABLE madrugada.alert_delivery (
  alert_id     bigint NOT NULL REFERENCES madrugada.alert (id) ON DELETE CASCADE,
  channel      text NOT NULL CHECK (channel IN ('webhook', 'command') OR channel LIKE 'mail:%'), -- each address by itself
  tries        integer NOT NULL DEFAULT 0,
  next_at      timestamptz NOT NULL DEFAULT madrugada.now(),
  delivered_at timestamptz,
  last_error   text,
  PRIMARY KEY (alert_id, channel)
);
CREATE INDEX alert_delivery_due ON madrugada.alert_delivery (next_at) WHERE delivered_at IS NULL;

ALTER TABLE madrugada.audit_event DROP CONSTRAINT audit_event_subject_check,
  ADD CONSTRAINT audit_event_subject_check CHECK (subject IN ('batch', 'task', 'worker', 'stop', 'bill', 'price', 'alert', 'doubt', 'budget'));

CREATE FUNCTION madrugada.audit_alert() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('alert', CASE WHEN TG_OP = 'INSERT' THEN 'raised' ELSE 'acknowledged' END, NEW.batch_key, NEW.task_id, NULL, NULL,
    NULL, NULL, NULL, CASE WHEN TG_OP = 'INSERT' THEN NEW.kind || ': ' || NEW.message ELSE concat_ws(': ', NEW.kind, NEW.ack_note) END);
  RETURN NULL;
END
$$;
CREATE TRIGGER alert_audit AFTER INSERT OR UPDATE ON madrugada.alert FOR EACH ROW EXECUTE FUNCTION madrugada.audit_alert();

-- Workers that hear of it look for themselves what is stopped: the news is only that it may be worth looking.
CREATE OR REPLACE FUNCTION madrugada.stop_batch(the_batch text, why text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE batch b SET state = 'stopped', stop_reason = why WHERE b.batch_key = the_batch AND b.state = 'open';
  IF FOUND THEN
    PERFORM pg_notify('madrugada_stop', the_batch);
    RETURN true;
  END IF;
  RETURN false;
END
$$;

-- The program stops a batch by itself. True when it was open until now; one that is stopped already raises nothing more.
CREATE FUNCTION madrugada.stop_automatically(the_batch text, kind text, why text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  said_before text := coalesce(said('reason'), '');
BEGIN
  PERFORM set_config('madrugada.reason', '', true); -- an attempt that ends in this transaction has left its own
  IF NOT stop_batch(the_batch, why) THEN
    PERFORM set_config('madrugada.reason', said_before, true);
    RETURN false;
  END IF;
  INSERT INTO alert (kind, batch_key, message) VALUES (stop_automatically.kind, the_batch, why) ON CONFLICT DO NOTHING;
  PERFORM set_config('madrugada.reason', said_before, true);
  RETURN true;
END
$$;

-- Failed attempts since the batch's last completion: what fails again and again at night is not mended by the next attempt.
ALTER TABLE madrugada.batch ADD COLUMN stop_after_failures integer NOT NULL DEFAULT 10 CHECK (stop_after_failures > 0);
CREATE TABLE madrugada.failure_streak (
  batch_key text PRIMARY KEY REFERENCES madrugada.batch (batch_key) ON DELETE CASCADE,
  failures  integer NOT NULL CHECK (failures >= 0)
) WITH (fillfactor = 50);

CREATE FUNCTION madrugada.count_failures() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  b batch%ROWTYPE;
  streak integer;
BEGIN
  SELECT its.* INTO b FROM task t JOIN batch its ON its.batch_key = t.batch_key WHERE t.id = NEW.task_id;
  IF NEW.ending = 'completed' THEN
    UPDATE failure_streak f SET failures = 0 WHERE f.batch_key = b.batch_key AND f.failures > 0;
    RETURN NULL;
  END IF;
  INSERT INTO failure_streak AS f (batch_key, failures) VALUES (b.batch_key, 1)
    ON CONFLICT (batch_key) DO UPDATE SET failures = f.failures + 1
    RETURNING f.failures INTO streak;
  IF streak >= b.stop_after_failures THEN
    PERFORM stop_automatically(b.batch_key, 'failures', format(
      '%s attempts in a row have failed, and none was completed meanwhile; the last: %s', streak, left(NEW.error, 500)));
  END IF;
  RETURN NULL;
END
$$;
-- At the end of the transaction, because the batch's row, the last in the order of locks, may have to be locked.
CREATE CONSTRAINT TRIGGER attempt_failures AFTER UPDATE ON madrugada.attempt DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (OLD.ending IS NULL AND NEW.ending IN ('completed', 'failed')) EXECUTE FUNCTION madrugada.count_failures();

-- As in 0006_operating.sql, but retry and close of a batch exclude each other by a lock of their own: a retry that had the batch's row, and
-- waited for its task, would lock out the failing attempt that has the task, and is about to stop the batch.
CREATE OR REPLACE FUNCTION madrugada.close_batch(the_batch text, give_up_pending boolean) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  unfinished bigint;
  last_deadline timestamptz;
  standing text;
BEGIN
  PERFORM pg_advisory_xact_lock(slot_lock_class() + 2, b.number) FROM batch b WHERE b.batch_key = the_batch; -- a retry waits, or is seen
  PERFORM FROM batch b WHERE b.batch_key = the_batch FOR NO KEY UPDATE; -- nobody opens it meanwhile
  IF give_up_pending THEN
    standing := withdraw_actions(the_batch);
    IF standing IS NOT NULL THEN
      RETURN standing;
    END IF;
    UPDATE task t SET state = 'failed', waiting_for = NULL,
           failure = jsonb_build_object('kind', 'given up', 'message', coalesce(said('reason'), 'its batch was closed'))
     WHERE t.batch_key = the_batch AND t.state = 'pending';
  END IF;
  SELECT count(*) INTO unfinished FROM task t WHERE t.batch_key = the_batch AND t.state IN ('pending', 'running');
  IF unfinished > 0 THEN
    RETURN format('%s tasks are neither completed nor failed', unfinished);
  END IF;
  SELECT max(d.deadline_at) INTO last_deadline FROM audit_in_doubt d WHERE d.batch_key = the_batch AND d.waiting_until > now();
  IF last_deadline IS NOT NULL THEN
    RETURN format('a dispatch in doubt may still bring its answer until %s', last_deadline + interval '30 seconds');
  END IF;
  UPDATE batch b SET state = 'closed', closed_at = now(), stop_reason = NULL WHERE b.batch_key = the_batch AND b.state IN ('open', 'stopped');
  RETURN CASE WHEN NOT FOUND THEN 'it is closed already' END;
END
$$;

CREATE OR REPLACE FUNCTION madrugada.retry_task(the_task bigint, pay_from integer) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  b batch%ROWTYPE;
  t task%ROWTYPE;
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a retry needs a name and a reason';
  END IF;
  PERFORM pg_advisory_xact_lock_shared(slot_lock_class() + 2, its.number) FROM batch its JOIN task x ON x.batch_key = its.batch_key WHERE x.id = the_task;
  SELECT its.* INTO b FROM batch its JOIN task x ON x.batch_key = its.batch_key WHERE x.id = the_task; -- as the lock found it
  IF b.state NOT IN ('open', 'stopped') THEN
    RAISE EXCEPTION 'batch % is %: load the task again under another version', b.batch_key, b.state;
  END IF;
  SELECT * INTO t FROM task WHERE id = the_task FOR UPDATE;
  IF t.state <> 'failed' AND (t.waiting_for IS DISTINCT FROM 'settlement' OR pay_from IS NULL) THEN
    RETURN false;
  END IF;
  UPDATE task SET state = 'pending', attempts = 0, losses = 0, failure = NULL, not_before = now(), waiting_for = NULL WHERE id = the_task;
  IF t.state = 'pending' THEN -- no passage between states, and still a decision to be found
    PERFORM record_event('task', 'retried', t.batch_key, t.id, 'pending', 'pending', NULL, NULL, NULL, said('reason'));
    PERFORM pg_notify('madrugada_work', t.batch_key);
  END IF;
  IF pay_from IS NOT NULL THEN
    INSERT INTO pay_again (task_id, from_seq, to_seq, from_no, to_no)
    SELECT the_task, pay_from, max(i.seq), coalesce(min(i.after_no) FILTER (WHERE i.seq = pay_from), 0), (SELECT last_value FROM journal_no)
      FROM call_intent i WHERE i.batch_key = t.batch_key AND i.task_id = the_task
    HAVING max(i.seq) >= pay_from;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'task % has no recorded call % or later', t.key, pay_from;
    END IF;
  END IF;
  RETURN true;
END
$$;

-- The next delivery of an open alert that is due by one of these channels; it is nobody else's until its next time. No row: none is due.
CREATE FUNCTION madrugada.claim_delivery(channels text[]) RETURNS TABLE (alert_id bigint, channel text, document jsonb)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO alert_delivery (alert_id, channel)
    SELECT a.id, c FROM alert a, unnest(channels) c
     WHERE a.acknowledged_at IS NULL AND NOT EXISTS (SELECT FROM alert_delivery d WHERE d.alert_id = a.id AND d.channel = c)
    ON CONFLICT DO NOTHING;
  RETURN QUERY
  WITH due AS (
    SELECT d.alert_id, d.channel FROM alert_delivery d JOIN alert a ON a.id = d.alert_id
     WHERE d.delivered_at IS NULL AND d.next_at <= now() AND d.channel = ANY (channels) AND a.acknowledged_at IS NULL
     ORDER BY d.next_at LIMIT 1 FOR UPDATE OF d SKIP LOCKED)
  UPDATE alert_delivery d
     SET tries = d.tries + 1, next_at = now() + least(interval '1 hour', interval '30 seconds' * power(2, least(d.tries, 10)))
    FROM due JOIN alert a ON a.id = due.alert_id
   WHERE d.alert_id = due.alert_id AND d.channel = due.channel
  RETURNING d.alert_id, d.channel, jsonb_build_object(
    'id', a.id, 'raised_at', a.raised_at, 'kind', a.kind, 'batch', a.batch_key, 'task_id', a.task_id, 'message', a.message);
END
$$;

-- What became of it; `error` NULL: it got through.
CREATE FUNCTION madrugada.record_delivery(the_alert bigint, the_channel text, error text) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    UPDATE alert_delivery SET delivered_at = CASE WHEN error IS NULL THEN now() END, last_error = error
     WHERE alert_id = the_alert AND channel = the_channel
  $$;

-- What only a person may do, with name and reason.
CREATE FUNCTION madrugada.require_person(deed text) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION '% needs a name and a reason', deed
      USING HINT = 'set madrugada.by and madrugada.reason in the same transaction, or use the madrugada command';
  END IF;
END
$$;

-- Whoever opens a batch again has seen why it was stopped: its alerts are acknowledged, so that the next stop raises one, and its failures
-- count anew.
CREATE OR REPLACE FUNCTION madrugada.resume_batch(the_batch text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM require_person('resuming batch ' || the_batch);
  UPDATE batch b SET state = 'open', stop_reason = NULL, cut_off_at = NULL WHERE b.batch_key = the_batch AND b.state = 'stopped';
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE alert a SET acknowledged_at = now(), acknowledged_by = said('by'), ack_note = 'batch resumed: ' || said('reason')
   WHERE a.batch_key = the_batch AND a.acknowledged_at IS NULL;
  UPDATE failure_streak f SET failures = 0 WHERE f.batch_key = the_batch;
  RETURN true;
END
$$;

-- Returns false when somebody has acknowledged it before, NULL when there is none of this number.
CREATE FUNCTION madrugada.acknowledge_alert(the_alert bigint, note text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF said('by') IS NULL THEN
    RAISE EXCEPTION 'an alert is acknowledged by a person, with a name';
  END IF;
  UPDATE alert a SET acknowledged_at = now(), acknowledged_by = said('by'), ack_note = note
   WHERE a.id = the_alert AND a.acknowledged_at IS NULL;
  RETURN CASE WHEN FOUND THEN true WHEN EXISTS (SELECT FROM alert a WHERE a.id = the_alert) THEN false END;
END
$$;

CREATE OR REPLACE FUNCTION madrugada.stop_everything(why text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  INSERT INTO stop_switch (reason) VALUES (why) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    PERFORM pg_notify('madrugada_stop', '');
    RETURN true;
  END IF;
  RETURN false;
END
$$;

-- In addition to a stop in force: what is in flight is not waited for, of one batch or (NULL) of all. Its dispatches stay in doubt. The order
-- stands in the row of the stop, because a worker whose connection is down does not hear of it; who resumes takes it back.
ALTER TABLE madrugada.batch ADD COLUMN cut_off_at timestamptz, ADD CHECK (cut_off_at IS NULL OR state <> 'open');
ALTER TABLE madrugada.stop_switch ADD COLUMN cut_off_at timestamptz;

DROP TRIGGER stop_audit ON madrugada.stop_switch;
CREATE TRIGGER stop_insert_audit AFTER INSERT ON madrugada.stop_switch FOR EACH ROW EXECUTE FUNCTION madrugada.audit_stop();
CREATE TRIGGER stop_lift_audit AFTER UPDATE ON madrugada.stop_switch
  FOR EACH ROW WHEN (OLD.lifted_at IS NULL AND NEW.lifted_at IS NOT NULL) EXECUTE FUNCTION madrugada.audit_stop();

CREATE FUNCTION madrugada.cut_off(the_batch text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF the_batch IS NULL THEN
    UPDATE stop_switch s SET cut_off_at = now() WHERE s.lifted_at IS NULL AND s.cut_off_at IS NULL;
  ELSE
    UPDATE batch b SET cut_off_at = now() WHERE b.batch_key = the_batch AND b.state = 'stopped' AND b.cut_off_at IS NULL;
  END IF;
  IF FOUND THEN
    PERFORM record_event(CASE WHEN the_batch IS NULL THEN 'stop' ELSE 'batch' END, 'cut off', the_batch, NULL, NULL, NULL, NULL, NULL, NULL, said('reason'));
    PERFORM pg_notify('madrugada_stop', coalesce(the_batch, ''));
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION madrugada.lift_stop() RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM require_person('lifting the stop of everything');
  UPDATE stop_switch s SET lifted_at = now() WHERE s.lifted_at IS NULL;
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', '');
    RETURN true;
  END IF;
  RETURN false;
END
$$;

-- True when a person has confirmed this server, or the database has never known another. Changes nothing, unlike check_server_identity.
CREATE FUNCTION madrugada.server_is_known() RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT NOT EXISTS (SELECT FROM server_identity) OR EXISTS (
      SELECT FROM server_identity i, pg_control_system() s, pg_control_checkpoint() c
       WHERE i.system_identifier = s.system_identifier AND i.timeline_id = c.timeline_id)
  $$;

GRANT EXECUTE ON FUNCTION madrugada.claim_delivery(text[]), madrugada.record_delivery(bigint, text, text)
  TO madrugada_worker, madrugada_operator;
GRANT SELECT ON madrugada.alert, madrugada.alert_delivery, madrugada.failure_streak TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.stop_automatically(text, text, text) TO madrugada_worker, madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.acknowledge_alert(bigint, text), madrugada.server_is_known(), madrugada.cut_off(text) TO madrugada_operator;
