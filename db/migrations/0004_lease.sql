-- Claim, heartbeat, release, reclaim. Workers have no right to update a task: these functions do it for whoever holds, by token and
-- worker id, the current lease (rule R14). Every function that updates several tasks locks them in the order of their ids. The hot ones look
-- up by index alone (enable_seqscan = off): a plan that was cached while a table was empty must not scan it when it is full.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE FUNCTION madrugada.register_worker(host text, boot_id text, pid integer, pid_started_at bigint) RETURNS bigint
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO worker (host, boot_id, pid, pid_started_at) VALUES (host, boot_id, pid, pid_started_at) RETURNING id
  $$;

CREATE FUNCTION madrugada.is_stopped() RETURNS boolean
  LANGUAGE sql STABLE
  AS $$ SELECT EXISTS (SELECT FROM madrugada.stop_switch WHERE lifted_at IS NULL) $$;

-- Claims the next task of a batch for a slot: one that was given back and whose time has come, else the first never claimed after
-- `after_position` (the caller's last claim: see index task_fresh). No row: nothing to claim now.
CREATE FUNCTION madrugada.claim_task(the_batch text, the_slot text, the_worker bigint, the_agent text, after_position integer)
  RETURNS TABLE (
    task_id bigint, key text, item text, "position" integer, input jsonb, lease_token bigint, lease_seconds integer,
    first_claimed_at timestamptz, agent text, agent_options jsonb, doubt_policy doubt_policy, max_attempts integer,
    previous_agent_sha256 text, claimed_before boolean
  )
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
#variable_conflict use_column
DECLARE
  b batch%ROWTYPE;
BEGIN
  SELECT * INTO b FROM batch WHERE batch_key = the_batch AND state = 'open';
  IF NOT FOUND OR is_stopped() THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH next AS (
    SELECT id FROM (
      SELECT * FROM (
        SELECT t.id FROM task t
         WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token > 0 AND t.not_before <= now()
         ORDER BY t.not_before LIMIT 1 FOR UPDATE SKIP LOCKED) given_back
      UNION ALL
      SELECT * FROM (
        SELECT t.id FROM task t
         WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token = 0 AND t.position > after_position
         ORDER BY t.position LIMIT 1 FOR UPDATE SKIP LOCKED) fresh
    ) either LIMIT 1
  ), claimed AS (
    UPDATE task t
       SET state = 'running', attempts = t.attempts + 1, slot = the_slot, worker_id = the_worker, lease_token = t.lease_token + 1,
           lease_expires_at = now() + make_interval(secs => b.lease_seconds), first_claimed_at = coalesce(t.first_claimed_at, now()),
           waiting_for = NULL
      FROM next WHERE t.id = next.id
    RETURNING t.*
  ), started AS (
    INSERT INTO attempt (task_id, number, slot, worker_id, lease_token, agent_sha256)
    SELECT c.id, c.lease_token, c.slot, c.worker_id, c.lease_token, the_agent FROM claimed c
  )
  SELECT c.id, c.key, c.item, c.position, c.input, c.lease_token, b.lease_seconds, c.first_claimed_at, b.agent, b.agent_options,
         b.doubt_policy, b.max_attempts,
         CASE WHEN c.lease_token > 1 THEN
           (SELECT a.agent_sha256 FROM attempt a WHERE a.task_id = c.id AND a.number < c.lease_token ORDER BY a.number DESC LIMIT 1) END,
         c.lease_token > 1
    FROM claimed c;
END
$$;

-- When the next task given back becomes claimable by time alone; NULL: none will.
CREATE FUNCTION madrugada.next_claimable_at(the_batch text) RETURNS timestamptz
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT t.not_before FROM task t
     WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token > 0 AND t.not_before < 'infinity'
     ORDER BY t.not_before LIMIT 1
  $$;

-- One heartbeat of a worker: it lives, and the leases of its advancing tasks run on. Returns the leases that are no longer its own, of tasks
-- that stand still, too: their slots must be told.
CREATE FUNCTION madrugada.heartbeat(the_worker bigint, task_ids bigint[], lease_tokens bigint[], advancing boolean[])
  RETURNS TABLE (lost_task bigint, lost_token bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  UPDATE worker w SET heartbeat_at = now() WHERE w.id = the_worker AND w.ended_at IS NULL;
  RETURN QUERY
  WITH mine AS (
    SELECT m.id, m.token, m.advances FROM unnest(task_ids, lease_tokens, advancing) AS m (id, token, advances)
  ), held AS (
    SELECT t.id, mine.token, mine.advances, b.lease_seconds
      FROM mine
      JOIN task t ON t.id = mine.id AND t.state = 'running' AND t.worker_id = the_worker AND t.lease_token = mine.token
      JOIN batch b ON b.batch_key = t.batch_key
     ORDER BY t.id FOR NO KEY UPDATE OF t
  ), extended AS (
    UPDATE task t SET lease_expires_at = now() + make_interval(secs => held.lease_seconds)
      FROM held WHERE t.id = held.id AND held.advances
        -- not at every beat: only when a third of the lease has run
        AND t.lease_expires_at < now() + make_interval(secs => held.lease_seconds * 2 / 3.0)
  )
  SELECT mine.id, mine.token FROM mine WHERE NOT EXISTS (SELECT FROM held WHERE held.id = mine.id AND held.token = mine.token);
END
$$;

-- What a task has cost so far, by the journal.
CREATE FUNCTION madrugada.journal_cost(the_batch text, the_task bigint) RETURNS numeric
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
    SELECT coalesce(sum(o.cost_usd), 0) FROM call_outcome o WHERE o.batch_key = the_batch AND o.task_id = the_task
  $$;

-- Answer and completed in one statement, only while the lease is the writer's (N7). True also when this very attempt has completed the
-- task before: its first commit was not seen.
CREATE FUNCTION madrugada.complete_task(the_task bigint, the_worker bigint, token bigint, answer jsonb, replayed_calls integer) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
BEGIN
  -- By id alone: see fence_intent.
  SELECT * INTO t FROM task WHERE id = the_task FOR NO KEY UPDATE;
  IF t.state = 'running' AND t.worker_id = the_worker AND t.lease_token = token AND t.lease_expires_at > now() THEN
    UPDATE task
       SET state = 'completed', result = answer, completed_at = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL,
           spent_usd = journal_cost(t.batch_key, t.id)
     WHERE id = the_task;
    UPDATE attempt SET ended_at = now(), ending = 'completed', replayed = replayed_calls WHERE task_id = the_task AND number = token;
    RETURN true;
  END IF;
  RETURN EXISTS (
    SELECT FROM attempt a WHERE a.task_id = the_task AND a.number = token AND a.worker_id = the_worker AND a.ending = 'completed');
END
$$;

-- True while a call of the task has a dispatch that no other may follow yet.
CREATE FUNCTION madrugada.is_in_doubt(the_task bigint) RETURNS boolean
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM task t
      JOIN batch b ON b.batch_key = t.batch_key
      JOIN call_intent i ON i.batch_key = t.batch_key AND i.task_id = t.id
     WHERE t.id = the_task AND NOT may_pay_again(i, b.doubt_policy)
       AND NOT EXISTS (SELECT FROM call_outcome o WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.answers));
END
$$;

-- Ends an attempt that has no answer. `ending` failed: the task goes back while attempts are left, unless the failure is final;
-- released, parked, stopped: the task goes back without having used one up, parked until `wait_until` for `wait_for`.
CREATE FUNCTION madrugada.end_attempt(
  the_task bigint, the_worker bigint, token bigint, how attempt_ending, why jsonb, final boolean, wait_until timestamptz, wait_for text,
  replayed_calls integer
) RETURNS task_state
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  gives_up boolean := false;
BEGIN
  -- By id alone: see fence_intent. Whoever brings the outcome that a doubt waits for locks the row, too (wake_task): it finds the task
  -- parked, or we find the outcome.
  SELECT * INTO t FROM task WHERE id = the_task FOR UPDATE;
  IF t.state IS DISTINCT FROM 'running' OR t.worker_id <> the_worker OR t.lease_token <> token THEN
    RETURN NULL;
  END IF;
  IF wait_for IN ('doubt', 'settlement') AND NOT is_in_doubt(the_task) THEN
    wait_until := NULL;
    wait_for := NULL;
  END IF;
  IF how NOT IN ('failed', 'released', 'parked', 'stopped') THEN
    RAISE EXCEPTION 'an attempt ends itself as failed, released, parked or stopped, not as %', how;
  END IF;
  PERFORM set_config('madrugada.reason', coalesce(why ->> 'message', how::text), true);
  IF how = 'failed' THEN
    gives_up := final OR t.attempts - t.losses >= (SELECT b.max_attempts FROM batch b WHERE b.batch_key = t.batch_key);
  END IF;
  UPDATE task
     SET state = CASE WHEN gives_up THEN 'failed' ELSE 'pending' END::task_state, failure = CASE WHEN gives_up THEN why END,
         attempts = CASE WHEN how = 'failed' THEN t.attempts ELSE t.attempts - 1 END,
         not_before = coalesce(wait_until, now()), waiting_for = wait_for,
         slot = NULL, worker_id = NULL, lease_expires_at = NULL, spent_usd = journal_cost(t.batch_key, t.id)
   WHERE id = the_task;
  UPDATE attempt SET ended_at = now(), ending = how, error = why ->> 'message', replayed = replayed_calls
   WHERE task_id = the_task AND number = token;
  RETURN CASE WHEN gives_up THEN 'failed' ELSE 'pending' END::task_state;
END
$$;

-- Takes tasks away from attempts that were lost with their process. The rows are already locked by the caller. An attempt that added a
-- record to the journal does not use one up, within max_losses: else a task that kills its worker would burn its neighbours' attempts.
CREATE FUNCTION madrugada.lose_attempts(task_ids bigint[], why text) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  lost integer;
BEGIN
  PERFORM set_config('madrugada.reason', why, true);
  WITH judged AS (
    SELECT t.id, t.lease_token, b.max_attempts, b.max_losses,
           (EXISTS (SELECT FROM call_intent i WHERE i.batch_key = t.batch_key AND i.task_id = t.id AND i.attempt = t.lease_token)
            OR EXISTS (SELECT FROM step_record s WHERE s.batch_key = t.batch_key AND s.task_id = t.id AND s.attempt = t.lease_token))::integer AS recorded
      FROM task t JOIN batch b ON b.batch_key = t.batch_key
     WHERE t.id = ANY (task_ids) AND t.state = 'running'
  ), decided AS (
    SELECT j.*, t.losses + recorded AS new_losses,
           t.attempts - t.losses - recorded >= j.max_attempts OR t.losses + recorded >= j.max_losses AS gives_up
      FROM judged j JOIN task t ON t.id = j.id
  ), ended AS (
    UPDATE attempt a SET ended_at = now(), ending = 'lost', error = why FROM decided d WHERE a.task_id = d.id AND a.number = d.lease_token
  )
  UPDATE task t
     SET state = CASE WHEN d.gives_up THEN 'failed' ELSE 'pending' END::task_state, losses = d.new_losses,
         failure = CASE WHEN d.gives_up THEN jsonb_build_object('kind', 'lost', 'message', 'every allowed attempt was lost with its process; last: ' || why) END,
         not_before = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL, spent_usd = journal_cost(t.batch_key, t.id)
    FROM decided d WHERE t.id = d.id;
  GET DIAGNOSTICS lost = ROW_COUNT;
  RETURN lost;
END
$$;

-- Leases that ran out between the two moments go back (N6). A sweeper passes the moment of its last sweep, so that it does not walk the
-- dead index entries of a whole night; '-infinity' walks all. Rows another sweeper holds are skipped, and what changed meanwhile is re-checked.
CREATE FUNCTION madrugada.sweep_expired_leases(expired_after timestamptz) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  expired bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE t.state = 'running' AND t.lease_expires_at > expired_after AND t.lease_expires_at <= now()
     ORDER BY t.id FOR UPDATE SKIP LOCKED);
BEGIN
  RETURN CASE WHEN expired = '{}' THEN 0 ELSE lose_attempts(expired, 'its lease ran out: no heartbeat, or no progress') END;
END
$$;

-- The advisory lock that says "this slot is taken": two halves of one key, so that pg_locks shows it readably.
CREATE FUNCTION madrugada.slot_lock_class() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1835102322'; -- 'madr'
CREATE FUNCTION madrugada.slot_lock_key(the_slot text) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT hashtext(the_slot)';

-- Does this worker have the slot's lock? A successor under the same name may have it, when its predecessor's death cannot be proven: after the
-- restart of a container, say. Connections of worker 7 are named 'madrugada/w7/…'.
CREATE FUNCTION madrugada.slot_is_locked_by(the_slot text, the_worker bigint) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
      WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid::bigint = slot_lock_class() AND l.objid::bigint = (slot_lock_key(the_slot)::bigint & 4294967295) AND l.granted
        AND a.application_name LIKE 'madrugada/w' || the_worker || '/%')
  $$;

-- A lock it has not and a heartbeat older than ten seconds release a worker's leases (rule R6). They prove nothing about its dispatches.
CREATE FUNCTION madrugada.release_silent_workers() RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  silent bigint[] := ARRAY(
    SELECT w.id FROM worker w WHERE w.ended_at IS NULL AND w.heartbeat_at < now() - interval '10 seconds');
  held bigint[];
BEGIN
  IF silent = '{}' THEN
    RETURN 0;
  END IF;
  held := ARRAY(
    SELECT t.id FROM task t
     WHERE t.state = 'running' AND t.worker_id = ANY (silent) AND NOT slot_is_locked_by(t.slot, t.worker_id)
     ORDER BY t.id FOR UPDATE SKIP LOCKED);
  RETURN CASE WHEN held = '{}' THEN 0 ELSE lose_attempts(held, 'its worker is silent and has lost its slot') END;
END
$$;

-- Notes a worker's end, on proof, and takes its tasks away. False while one of its backends is still at work: a dead client's statement
-- can still commit, and the journal must not be read before (rule R7).
CREATE FUNCTION madrugada.end_worker(the_worker bigint, how text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  held bigint[];
BEGIN
  IF EXISTS (SELECT FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'madrugada/w' || the_worker || '/%') THEN
    RETURN false;
  END IF;
  UPDATE worker w SET ended_at = now(), ended_how = how WHERE w.id = the_worker AND w.ended_at IS NULL;
  held := ARRAY(SELECT t.id FROM task t WHERE t.state = 'running' AND t.worker_id = the_worker ORDER BY t.id FOR UPDATE);
  IF held <> '{}' THEN
    PERFORM lose_attempts(held, 'its worker ended: ' || how);
  END IF;
  PERFORM wake_doubtful_tasks(the_worker);
  RETURN true;
END
$$;

-- Takes tasks back whose attempts nobody runs, without using one up. The rows are already locked by the caller.
CREATE FUNCTION madrugada.give_back(task_ids bigint[], why text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM set_config('madrugada.reason', why, true);
  UPDATE attempt a SET ended_at = now(), ending = 'released', error = why
    FROM task t WHERE t.id = ANY (task_ids) AND a.task_id = t.id AND a.number = t.lease_token;
  UPDATE task t SET state = 'pending', attempts = t.attempts - 1, not_before = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL
   WHERE t.id = ANY (task_ids);
END
$$;

-- A worker says goodbye itself: it has nothing in flight. What it has given up without saying so, because its slot was taken from it, goes back.
CREATE FUNCTION madrugada.leave_worker(the_worker bigint, how text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE worker w SET ended_at = now(), ended_how = how WHERE w.id = the_worker AND w.ended_at IS NULL;
  PERFORM give_back(
    ARRAY(SELECT t.id FROM task t WHERE t.state = 'running' AND t.worker_id = the_worker ORDER BY t.id FOR UPDATE), 'its worker left: ' || how);
END
$$;

-- Tasks parked because a dispatch of this worker was in doubt need wait no longer: its death is proven (invariant 5). Running ones are locked,
-- too: one that is being parked at this moment is then woken, or finds the death.
CREATE FUNCTION madrugada.wake_doubtful_tasks(the_worker bigint) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  doubtful bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE (t.state = 'running' OR t.state = 'pending' AND t.waiting_for = 'doubt')
       AND EXISTS (SELECT FROM call_intent i WHERE i.batch_key = t.batch_key AND i.task_id = t.id AND i.worker_id = the_worker)
     ORDER BY t.id FOR UPDATE);
BEGIN
  UPDATE task t SET not_before = now(), waiting_for = NULL
   WHERE t.id = ANY (doubtful) AND t.state = 'pending' AND t.waiting_for = 'doubt';
END
$$;

-- A late outcome came for a task that was parked because of it, or is just being parked.
CREATE FUNCTION madrugada.wake_task(the_task bigint) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM FROM task t WHERE t.id = the_task FOR UPDATE;
  UPDATE task t SET not_before = now(), waiting_for = NULL
   WHERE t.id = the_task AND t.state = 'pending' AND t.waiting_for IN ('doubt', 'settlement');
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', (SELECT t.batch_key FROM task t WHERE t.id = the_task));
  END IF;
END
$$;

-- What a slot holds although its worker does not know of it: by a claim whose commit it did not see (rule R6). A lease that ran out is the
-- sweep's: else an attempt that hung past its lease, and noticed, would not count.
CREATE FUNCTION madrugada.release_unknown_claims(the_slot text, the_worker bigint, known_tasks bigint[]) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  unseen bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE t.state = 'running' AND t.worker_id = the_worker AND t.slot = the_slot AND t.id <> ALL (known_tasks) AND t.lease_expires_at > now()
     ORDER BY t.id FOR UPDATE);
BEGIN
  PERFORM give_back(unseen, 'claimed, but the commit was not seen');
  RETURN cardinality(unseen);
END
$$;
