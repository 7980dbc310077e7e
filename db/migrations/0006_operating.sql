-- What people do: load, stop, resume, close, retry. Operators call these functions; they have no right to change the tables themselves.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- Where a load puts its lines before load_batch moves them: COPY needs a table, and operators may not insert into task.
CREATE TABLE madrugada.incoming_task (
  loading  xid8 NOT NULL DEFAULT pg_current_xact_id(),
  position integer NOT NULL,
  item     text NOT NULL,
  input    jsonb NOT NULL
);

-- Loads one closed list: the lines this transaction has put into incoming_task. Returns the batch's key.
CREATE FUNCTION madrugada.load_batch(
  the_id text, the_version text, the_agent text, the_options jsonb, the_sha256 text, the_count integer, the_budget numeric,
  attempts integer, the_lease_seconds integer, policy doubt_policy
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  the_key text;
BEGIN
  INSERT INTO batch (id, version, agent, agent_options, tasks_sha256, task_count, budget_usd, max_attempts, lease_seconds, doubt_policy)
  VALUES (the_id, the_version, the_agent, the_options, the_sha256, the_count, the_budget, attempts, the_lease_seconds, policy)
  RETURNING batch_key INTO the_key;
  WITH lines AS (
    DELETE FROM incoming_task t WHERE t.loading = pg_current_xact_id() RETURNING t.position, t.item, t.input
  )
  INSERT INTO task (batch_id, item, version, position, input)
  SELECT the_id, l.item, the_version, l.position, l.input FROM lines l ORDER BY l.position;
  PERFORM create_partitions(the_key);
  RETURN the_key;
END
$$;

CREATE FUNCTION madrugada.stop_batch(the_batch text, why text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE batch b SET state = 'stopped', stop_reason = why WHERE b.batch_key = the_batch AND b.state = 'open';
  RETURN FOUND;
END
$$;

CREATE FUNCTION madrugada.resume_batch(the_batch text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE batch b SET state = 'open', stop_reason = NULL WHERE b.batch_key = the_batch AND b.state = 'stopped';
  RETURN FOUND;
END
$$;

-- Closes a batch whose tasks are all completed or failed and whose doubts can no longer bring a late answer. `give_up_pending` first
-- fails what is pending in a stopped batch. Returns NULL when closed, else what stands in the way.
CREATE FUNCTION madrugada.close_batch(the_batch text, give_up_pending boolean) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  unfinished bigint;
  last_deadline timestamptz;
BEGIN
  PERFORM FROM batch b WHERE b.batch_key = the_batch FOR NO KEY UPDATE; -- a retry waits, or is seen
  IF give_up_pending THEN
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

-- A person sends a failed task back, with fresh attempts. With `pay_from`, recorded calls from that number on are paid again; that also
-- releases a task that waits for a doubt to be settled, since the person takes the risk.
CREATE FUNCTION madrugada.retry_task(the_task bigint, pay_from integer) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  b batch%ROWTYPE;
  t task%ROWTYPE;
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a retry needs a name and a reason';
  END IF;
  SELECT its.* INTO b FROM batch its JOIN task x ON x.batch_key = its.batch_key WHERE x.id = the_task FOR SHARE OF its;
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

CREATE FUNCTION madrugada.stop_everything(why text) RETURNS boolean
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    WITH stopped AS (INSERT INTO stop_switch (reason) VALUES (why) ON CONFLICT DO NOTHING RETURNING id)
    SELECT EXISTS (SELECT FROM stopped)
  $$;

CREATE FUNCTION madrugada.lift_stop() RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE stop_switch s SET lifted_at = now() WHERE s.lifted_at IS NULL;
  RETURN FOUND;
END
$$;

-- Which server this database has known. Another system identifier or timeline means a restored copy or a failover, and what was recorded
-- last may be lost: everything stops until a person has looked (rule R15).
CREATE TABLE madrugada.server_identity (
  system_identifier bigint NOT NULL,
  timeline_id       integer NOT NULL,
  seen_at           timestamptz NOT NULL DEFAULT madrugada.now(),
  PRIMARY KEY (system_identifier, timeline_id)
);

-- True when the server is the one last confirmed (or the first ever seen).
CREATE FUNCTION madrugada.check_server_identity() RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  the_system bigint := (SELECT system_identifier FROM pg_control_system());
  the_timeline integer := (SELECT timeline_id FROM pg_control_checkpoint());
BEGIN
  PERFORM pg_advisory_xact_lock(slot_lock_class(), 0);
  IF NOT EXISTS (SELECT FROM server_identity) THEN
    INSERT INTO server_identity (system_identifier, timeline_id) VALUES (the_system, the_timeline);
    RETURN true;
  END IF;
  IF EXISTS (SELECT FROM server_identity WHERE system_identifier = the_system AND timeline_id = the_timeline) THEN
    RETURN true;
  END IF;
  PERFORM stop_everything(format(
    'the database is not the server it was (system %s, timeline %s): a restored backup or a failover may have lost the last records', the_system, the_timeline));
  RETURN false;
END
$$;

-- A person has looked at the restored database.
CREATE FUNCTION madrugada.confirm_server_identity() RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO server_identity (system_identifier, timeline_id)
    SELECT s.system_identifier, c.timeline_id FROM pg_control_system() s, pg_control_checkpoint() c ON CONFLICT DO NOTHING
  $$;
