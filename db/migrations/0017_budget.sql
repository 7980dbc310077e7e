-- Money (invariant 7: settled + held <= cap, rule R11). A hold is a dispatch's worst-case price. Touching the batch's row at every call would
-- halve the speed (measured), so each attempt draws an allowance from batch and month when its task is claimed, and more when it needs it;
-- within it the lease holder, the only writer, keeps count, and the journal proves it. When an attempt ends, by whomever, its allowance
-- shrinks to what the journal says: what it spent, and what its dispatches in doubt still hold. Nothing leaks, because nothing but the
-- journal is believed. drawn_usd is the sum of all allowances, and never exceeds the cap.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

ALTER TABLE madrugada.batch
  ADD COLUMN task_budget_usd numeric CHECK (task_budget_usd > 0),          -- of each task, all its attempts together
  ADD COLUMN velocity_usd numeric CHECK (velocity_usd > 0),                -- in any ten minutes; more stops the batch
  ADD COLUMN max_output_tokens integer CHECK (max_output_tokens > 0),      -- what a call asks for beyond this is lowered to it
  ADD COLUMN fall_back_model text CHECK (fall_back_model <> ''),           -- asked in the stead of a call's own model (0018_fall_back.sql) …
  ADD COLUMN fall_back_after integer CHECK (fall_back_after > 0),          -- … after so many refusals of the call
  ADD CHECK ((fall_back_model IS NULL) = (fall_back_after IS NULL));

-- What the tasks of a batch tie up. usual_usd: what a task of it usually ties up at its peak, drawn when the next one begins.
CREATE TABLE madrugada.batch_spending (
  batch_key text PRIMARY KEY REFERENCES madrugada.batch (batch_key) ON DELETE CASCADE,
  drawn_usd numeric NOT NULL DEFAULT 0 CHECK (drawn_usd >= 0),
  usual_usd numeric NOT NULL DEFAULT 0 CHECK (usual_usd >= 0)
) WITH (fillfactor = 50);
INSERT INTO madrugada.batch_spending (batch_key) SELECT batch_key FROM madrugada.batch;

-- The same for a calendar month (UTC) of all batches; an attempt belongs to the month in which it began. A month without a row of its own
-- inherits the cap of the last one that has one, when it is first drawn from.
CREATE TABLE madrugada.month_spending (
  month     date PRIMARY KEY CHECK (date_trunc('month', month) = month),
  cap_usd   numeric CHECK (cap_usd > 0),                                   -- NULL: no limit
  drawn_usd numeric NOT NULL DEFAULT 0 CHECK (drawn_usd >= 0)
) WITH (fillfactor = 50);

ALTER TABLE madrugada.attempt
  ADD COLUMN allowance_usd numeric CHECK (allowance_usd >= 0),             -- NULL: no limit was in force when it began
  ADD COLUMN held_usd numeric NOT NULL DEFAULT 0 CHECK (held_usd >= 0);    -- of an ended one: what its dispatches in doubt hold
CREATE INDEX attempt_holding ON madrugada.attempt (task_id, number) WHERE held_usd > 0;

ALTER TABLE madrugada.task
  ADD COLUMN needs_usd numeric CHECK (needs_usd > 0),                      -- the hold it was refused last; drawn when it is claimed again
  DROP CONSTRAINT task_waiting_for_check,
  ADD CONSTRAINT task_waiting_for_check CHECK (waiting_for IN ('doubt', 'settlement', 'refusal', 'budget'));
CREATE INDEX task_needing ON madrugada.task (batch_key, needs_usd) WHERE state = 'pending' AND needs_usd IS NOT NULL;

-- Dollars settled in each minute, and held by each worker at its last word, for the velocity limit. A row per worker, because one for all
-- would be fought over (measured: 15 to 20 % with 8 writers); written with the journal's groups, in the same commit.
CREATE TABLE madrugada.spending_minute (
  batch_key   text NOT NULL,
  minute      timestamptz NOT NULL,
  worker_id   bigint NOT NULL,
  settled_usd numeric NOT NULL,
  held_usd    numeric NOT NULL,
  PRIMARY KEY (batch_key, minute, worker_id)
) WITH (fillfactor = 50);

-- Claims, draws and ends of attempts share this lock, and so does the look after budgets; who sets a limit has it alone, and so finds every
-- attempt either counted or still to be. It is taken after tasks and before money: who has it alone then takes the batch's row, which others
-- lock last (attempt_failures), and all of the money.
CREATE FUNCTION madrugada.share_limits() RETURNS void
  LANGUAGE sql
  AS $$ SELECT pg_advisory_xact_lock_shared(madrugada.slot_lock_class() + 1, 0) $$;
CREATE FUNCTION madrugada.lock_limits() RETURNS void
  LANGUAGE sql
  AS $$ SELECT pg_advisory_xact_lock(madrugada.slot_lock_class() + 1, 0) $$;

CREATE FUNCTION madrugada.month_of(moment timestamptz) RETURNS date
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT date_trunc('month', moment AT TIME ZONE 'UTC')::date $$;

-- True while what this batch's attempts draw has to be counted.
CREATE FUNCTION madrugada.has_limits(the_batch text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT EXISTS (SELECT FROM batch b WHERE b.batch_key = the_batch AND (b.budget_usd IS NOT NULL OR b.task_budget_usd IS NOT NULL))
        OR EXISTS (SELECT FROM month_spending)
  $$;

-- What an attempt has spent and what its dispatches in doubt hold, by the journal alone: the calls of its task are one index range. A charge
-- without a price holds its worst case until somebody says what it was.
CREATE FUNCTION madrugada.attempt_money(the_task bigint, the_attempt bigint, OUT spent numeric, OUT held numeric)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  SELECT coalesce(sum(d.cost), 0), coalesce(sum(d.worst) FILTER (WHERE d.cost IS NULL), 0) INTO spent, held
    FROM (
      SELECT coalesce(i.worst_case_usd, 0) AS worst,
             CASE WHEN bool_or(o.kind IN ('charged', 'recovered'))
                  THEN coalesce(max(o.cost_usd) FILTER (WHERE o.kind = 'charged'), max(o.cost_usd) FILTER (WHERE o.kind = 'recovered'))
                  WHEN bool_or(o.kind IN ('refused', 'not_sent')) THEN 0
                  ELSE (SELECT CASE s.verdict WHEN 'charged' THEN s.cost_usd ELSE 0 END FROM settlement s
                         WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch)
             END AS cost
        FROM task t
        JOIN call_intent i ON i.batch_key = t.batch_key AND i.task_id = t.id AND i.attempt = the_attempt
        LEFT JOIN call_outcome o ON o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
       WHERE t.id = the_task
       GROUP BY i.batch_key, i.task_id, i.seq, i.dispatch) d;
END
$$;

-- What batch and month still have, or 'Infinity'. The batch's row is locked before the month's, always (rule R11).
CREATE FUNCTION madrugada.lock_free_money(the_batch text, the_month date, OUT free numeric, OUT reached text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  drawn numeric;
  of_batch numeric;
  of_month numeric;
BEGIN
  SELECT s.drawn_usd INTO drawn FROM batch_spending s WHERE s.batch_key = the_batch FOR UPDATE;
  SELECT coalesce(b.budget_usd - drawn, 'Infinity') INTO of_batch FROM batch b WHERE b.batch_key = the_batch;
  INSERT INTO month_spending (month, cap_usd)
    SELECT the_month, m.cap_usd FROM month_spending m WHERE m.month < the_month
       AND NOT EXISTS (SELECT FROM month_spending own WHERE own.month = the_month) ORDER BY m.month DESC LIMIT 1
    ON CONFLICT DO NOTHING;
  SELECT m.cap_usd - m.drawn_usd INTO of_month FROM month_spending m WHERE m.month = the_month FOR UPDATE;
  of_month := coalesce(of_month, 'Infinity');
  free := least(of_batch, of_month);
  reached := CASE WHEN of_batch <= of_month THEN 'the budget of the batch' ELSE 'the budget of the month ' || to_char(the_month, 'YYYY-MM') END;
END
$$;

-- Moves what is drawn from batch and month, up or down.
CREATE FUNCTION madrugada.move_drawn(the_batch text, the_month date, usd numeric) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE batch_spending s SET drawn_usd = s.drawn_usd + usd WHERE s.batch_key = the_batch;
  UPDATE month_spending m SET drawn_usd = m.drawn_usd + usd WHERE m.month = the_month;
END
$$;

-- Draws at least `needed` dollars, `asked` while there is plenty: near the cap nobody takes more than the next call can cost. NULL: not to be had.
CREATE FUNCTION madrugada.draw(the_batch text, the_month date, needed numeric, asked numeric, OUT granted numeric, OUT free numeric, OUT reached text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  SELECT f.free, f.reached INTO draw.free, draw.reached FROM lock_free_money(the_batch, the_month) f;
  IF free < needed THEN
    RETURN;
  END IF;
  granted := CASE WHEN free >= 20 * asked THEN greatest(asked, needed) ELSE needed END;
  PERFORM move_drawn(the_batch, the_month, granted);
END
$$;

-- More allowance for a running attempt. Locking the task makes a takeover wait, or us see it: what is drawn after the loss would be nobody's.
-- granted NULL and reached NULL: the lease is gone.
CREATE FUNCTION madrugada.draw_allowance(the_task bigint, the_worker bigint, token bigint, needed numeric, asked numeric,
    OUT granted numeric, OUT free numeric, OUT reached text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  began timestamptz;
BEGIN
  SELECT * INTO t FROM task WHERE id = the_task FOR SHARE;
  IF t.state IS DISTINCT FROM 'running' OR t.worker_id <> the_worker OR t.lease_token <> token THEN
    RETURN;
  END IF;
  PERFORM share_limits();
  SELECT a.started_at INTO began FROM attempt a WHERE a.task_id = the_task AND a.number = token FOR NO KEY UPDATE;
  SELECT d.granted, d.free, d.reached INTO draw_allowance.granted, draw_allowance.free, draw_allowance.reached
    FROM draw(t.batch_key, month_of(began), needed, asked) d;
  IF granted IS NULL THEN
    UPDATE batch_spending s SET usual_usd = greatest(s.usual_usd, needed) WHERE s.batch_key = t.batch_key;
  ELSE
    UPDATE attempt a SET allowance_usd = coalesce(a.allowance_usd, 0) + granted WHERE a.task_id = the_task AND a.number = token;
  END IF;
END
$$;

-- The same for several attempts in one commit. Tasks by id, then the limits, then attempts, then batches by key, and all of them before any month:
-- the order of everybody, so that two groups never wait for each other in a circle. Unless it `waits`, a task that somebody has locked is left
-- out (place without is_done): the others do not wait for whoever that is.
CREATE FUNCTION madrugada.draw_allowances(tasks bigint[], workers bigint[], tokens bigint[], needed numeric[], asked numeric[], waits boolean)
  RETURNS TABLE (place integer, is_done boolean, granted numeric, free numeric, reached text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  ours bigint[] := tasks;
BEGIN
  IF NOT waits THEN
    ours := ARRAY(SELECT t.id FROM task t WHERE t.id = ANY (tasks) ORDER BY t.id FOR SHARE SKIP LOCKED);
  ELSE
    PERFORM FROM task t WHERE t.id = ANY (tasks) ORDER BY t.id FOR SHARE;
  END IF;
  IF cardinality(ours) > 1 THEN
    PERFORM share_limits();
    PERFORM FROM attempt a JOIN unnest(tasks, tokens) d (id, token) ON a.task_id = d.id AND a.number = d.token
      WHERE d.id = ANY (ours) ORDER BY a.task_id, a.number FOR NO KEY UPDATE OF a;
    PERFORM lock_spending(ours);
  END IF;
  FOR n IN 1 .. cardinality(tasks) LOOP
    SELECT n, tasks[n] = ANY (ours), NULL, NULL, NULL INTO place, is_done, granted, free, reached;
    IF is_done THEN
      SELECT d.granted, d.free, d.reached INTO draw_allowances.granted, draw_allowances.free, draw_allowances.reached
        FROM draw_allowance(tasks[n], workers[n], tokens[n], needed[n], asked[n]) d;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;

-- Locks the money of these tasks' batches, in the order of their keys: before any month.
CREATE FUNCTION madrugada.lock_spending(tasks bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  PERFORM FROM batch_spending s WHERE s.batch_key IN (SELECT t.batch_key FROM task t WHERE t.id = ANY (tasks)) ORDER BY s.batch_key FOR UPDATE;
END
$$;

-- Sets the allowance of an ended attempt to what the journal says, and gives the rest back. The attempt's row is locked first, so that
-- of two settlements the later one reads what the earlier one wrote.
CREATE FUNCTION madrugada.settle_allowance(the_task bigint, the_attempt bigint) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a attempt%ROWTYPE;
  key text := (SELECT t.batch_key FROM task t WHERE t.id = the_task);
  money record;
BEGIN
  SELECT * INTO a FROM attempt WHERE task_id = the_task AND number = the_attempt FOR NO KEY UPDATE;
  IF a.ended_at IS NULL THEN
    RETURN;
  END IF;
  SELECT * INTO money FROM attempt_money(the_task, the_attempt);
  IF a.allowance_usd IS DISTINCT FROM money.spent + money.held OR a.held_usd <> money.held THEN
    UPDATE attempt SET allowance_usd = money.spent + money.held, held_usd = money.held WHERE task_id = the_task AND number = the_attempt;
    PERFORM move_drawn(key, month_of(a.started_at), money.spent + money.held - coalesce(a.allowance_usd, 0));
  END IF;
END
$$;

-- Tasks that wait for money wake, the most modest first, as far as there is money for all that are awake. Those woken before, and not yet
-- claimed, count. Notified only if so, because every idle slot listens.
CREATE FUNCTION madrugada.wake_for_budget(the_batch text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  available numeric;
BEGIN
  IF NOT EXISTS (SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for = 'budget') THEN
    RETURN;
  END IF;
  SELECT f.free INTO available FROM lock_free_money(the_batch, month_of(now())) f;
  available := available - (
    SELECT coalesce(sum(t.needs_usd), 0) FROM task t
     WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for IS DISTINCT FROM 'budget');
  WITH fitting AS (
    SELECT w.id FROM (
      SELECT t.id, sum(t.needs_usd) OVER (ORDER BY t.needs_usd, t.position) AS total FROM task t
       WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for = 'budget') w
     WHERE w.total <= available
  ), free_rows AS (
    SELECT t.id FROM task t JOIN fitting USING (id) WHERE t.waiting_for = 'budget' FOR NO KEY UPDATE OF t SKIP LOCKED -- claims lock tasks before money
  )
  UPDATE task t SET not_before = now(), waiting_for = NULL FROM free_rows WHERE t.id = free_rows.id;
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', the_batch);
  END IF;
END
$$;

-- At the end of attempts, in the transaction that ends them; their tasks are locked by the caller. All batches are locked before any month.
CREATE FUNCTION madrugada.settle_ended(task_ids bigint[], attempts bigint[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  keys text[];
BEGIN
  PERFORM share_limits();
  keys := ARRAY(SELECT DISTINCT t.batch_key FROM task t WHERE t.id = ANY (task_ids) AND has_limits(t.batch_key) ORDER BY t.batch_key);
  IF keys = '{}' THEN
    RETURN;
  END IF;
  PERFORM FROM batch_spending s WHERE s.batch_key = ANY (keys) ORDER BY s.batch_key FOR UPDATE;
  PERFORM settle_allowance(t.id, e.number)
    FROM unnest(task_ids, attempts) e (id, number) JOIN task t USING (id) WHERE t.batch_key = ANY (keys);
  PERFORM wake_for_budget(key) FROM unnest(keys) key;
END
$$;

-- As in 0004_lease.sql, and: where limits are in force, the next task begins only with an allowance. One that was refused money needs what
-- it was refused; a fresh one what a task usually ties up, and it begins only when none that has begun waits for money: near the cap what
-- runs may finish, and nothing new starts.
DROP FUNCTION madrugada.claim_task(text, text, bigint, text, integer);
CREATE FUNCTION madrugada.claim_task(the_batch text, the_slot text, the_worker bigint, the_agent text, after_position integer)
  RETURNS TABLE (
    task_id bigint, key text, item text, "position" integer, input jsonb, lease_token bigint, lease_seconds integer,
    first_claimed_at timestamptz, agent text, agent_options jsonb, doubt_policy doubt_policy, max_attempts integer,
    previous_agent_sha256 text, claimed_before boolean, allowance_usd numeric, committed_usd numeric, task_budget_usd numeric,
    counts_velocity boolean, max_output_tokens integer, fall_back_model text, fall_back_after integer, undoing jsonb
  )
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
#variable_conflict use_column
DECLARE
  b batch%ROWTYPE;
  next record;
  granted numeric;
BEGIN
  SELECT * INTO b FROM batch WHERE batch_key = the_batch AND state = 'open';
  IF NOT FOUND OR is_stopped() THEN
    RETURN;
  END IF;
  SELECT either.id, either.begun, either.needs_usd INTO next FROM (
    SELECT * FROM (
      SELECT t.id, true AS begun, t.needs_usd FROM task t
       WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token > 0 AND t.not_before <= now()
       ORDER BY t.not_before LIMIT 1 FOR UPDATE SKIP LOCKED) given_back
    UNION ALL
    SELECT * FROM (
      SELECT t.id, false, t.needs_usd FROM task t
       WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token = 0 AND t.position > after_position
       ORDER BY t.position LIMIT 1 FOR UPDATE SKIP LOCKED) fresh
  ) either LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM share_limits();
  IF has_limits(the_batch) THEN
    granted := draw_for_claim(the_batch, next.id, next.begun, next.needs_usd);
    IF granted IS NULL THEN
      RETURN;
    END IF;
  END IF;
  RETURN QUERY
  WITH claimed AS (
    UPDATE task t
       SET state = 'running', attempts = t.attempts + 1, slot = the_slot, worker_id = the_worker, lease_token = t.lease_token + 1,
           lease_expires_at = now() + make_interval(secs => b.lease_seconds), first_claimed_at = coalesce(t.first_claimed_at, now()),
           waiting_for = NULL, needs_usd = NULL
     WHERE t.id = next.id
    RETURNING t.*
  ), started AS (
    INSERT INTO attempt (task_id, number, slot, worker_id, lease_token, agent_sha256, allowance_usd)
    SELECT c.id, c.lease_token, c.slot, c.worker_id, c.lease_token, the_agent, granted FROM claimed c
  )
  SELECT c.id, c.key, c.item, c.position, c.input, c.lease_token, b.lease_seconds, c.first_claimed_at, b.agent, b.agent_options,
         b.doubt_policy, b.max_attempts,
         CASE WHEN c.lease_token > 1 THEN
           (SELECT a.agent_sha256 FROM attempt a WHERE a.task_id = c.id AND a.number < c.lease_token ORDER BY a.number DESC LIMIT 1) END,
         c.lease_token > 1, granted,
         CASE WHEN c.lease_token > 1 AND granted IS NOT NULL THEN
           (SELECT coalesce(sum(a.allowance_usd), 0) FROM attempt a WHERE a.task_id = c.id AND a.number < c.lease_token) ELSE 0 END,
         b.task_budget_usd, b.velocity_usd IS NOT NULL, b.max_output_tokens, b.fall_back_model, b.fall_back_after, c.undoing
    FROM claimed c;
END
$$;

-- NULL: the task cannot begin now. One that was woken because there seemed to be money, and finds it gone, waits again.
CREATE FUNCTION madrugada.draw_for_claim(the_batch text, the_task bigint, begun boolean, needs numeric) RETURNS numeric
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  usual numeric := (SELECT s.usual_usd FROM batch_spending s WHERE s.batch_key = the_batch);
  drawn record;
BEGIN
  IF NOT begun AND EXISTS (
    SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for = 'budget') THEN
    RETURN NULL;
  END IF;
  SELECT * INTO drawn FROM draw(the_batch, month_of(now()), CASE WHEN begun THEN coalesce(needs, 0) ELSE usual END, usual);
  IF drawn.granted IS NULL AND begun THEN
    UPDATE task t SET not_before = 'infinity', waiting_for = 'budget' WHERE t.id = the_task;
  END IF;
  RETURN drawn.granted;
END
$$;

-- The most that a task has tied up at any time, by the journal: what it had spent and held. Not its allowance, which is at least what it began with.
CREATE FUNCTION madrugada.peak_of_task(the_task bigint) RETURNS numeric
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  RETURN (
    WITH moves AS (
      SELECT i.sent_at, o.received_at, coalesce(i.worst_case_usd, 0) AS worst, o.cost
        FROM task t
        JOIN call_intent i ON i.batch_key = t.batch_key AND i.task_id = t.id
        LEFT JOIN LATERAL (
          SELECT o.received_at, coalesce(o.cost_usd, 0) AS cost FROM call_outcome o
           WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch
             AND (o.cost_usd IS NOT NULL OR o.kind IN ('refused', 'not_sent'))
           ORDER BY o.kind = 'charged' DESC, o.kind = 'recovered' DESC LIMIT 1) o ON true
       WHERE t.id = the_task
    )
    SELECT coalesce(max(m.tied), 0) FROM (
      SELECT sum(e.usd) OVER (ORDER BY e.at, e.usd DESC ROWS UNBOUNDED PRECEDING) AS tied
        FROM (SELECT sent_at AS at, worst AS usd FROM moves
              UNION ALL SELECT received_at, cost - worst FROM moves WHERE received_at IS NOT NULL) e) m);
END
$$;

-- As in 0004_lease.sql, and the money is settled in the same transaction. What a whole task has tied up at its peak tells what the next one
-- usually does; it fades, so that one dear task does not keep others from starting for ever.
CREATE OR REPLACE FUNCTION madrugada.complete_task(the_task bigint, the_worker bigint, token bigint, answer jsonb, replayed_calls integer) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  allowance numeric; -- NULL: there was no limit
BEGIN
  -- By id alone: see fence_intent.
  SELECT * INTO t FROM task WHERE id = the_task FOR NO KEY UPDATE;
  IF t.state = 'running' AND t.worker_id = the_worker AND t.lease_token = token AND t.lease_expires_at > now() THEN
    PERFORM share_limits();
    UPDATE task
       SET state = 'completed', result = answer, completed_at = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL,
           spent_usd = journal_cost(t.batch_key, t.id)
     WHERE id = the_task;
    UPDATE attempt SET ended_at = now(), ending = 'completed', replayed = replayed_calls WHERE task_id = the_task AND number = token
    RETURNING allowance_usd INTO allowance;
    IF allowance IS NOT NULL THEN
      UPDATE batch_spending s SET usual_usd = greatest(s.usual_usd * 0.9, peak_of_task(the_task)) WHERE s.batch_key = t.batch_key;
    END IF;
    PERFORM settle_ended(ARRAY[the_task], ARRAY[token]);
    RETURN true;
  END IF;
  RETURN EXISTS (
    SELECT FROM attempt a WHERE a.task_id = the_task AND a.number = token AND a.worker_id = the_worker AND a.ending = 'completed');
END
$$;

-- The same for several tasks in one commit, in the order of draw_allowances. done NULL: left out, because somebody has locked it.
CREATE FUNCTION madrugada.complete_tasks(tasks bigint[], workers bigint[], tokens bigint[], answers jsonb[], replayed integer[], waits boolean)
  RETURNS TABLE (place integer, done boolean)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  ours bigint[] := tasks;
BEGIN
  IF NOT waits THEN
    ours := ARRAY(SELECT t.id FROM task t WHERE t.id = ANY (tasks) ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED);
  ELSE
    PERFORM FROM task t WHERE t.id = ANY (tasks) ORDER BY t.id FOR NO KEY UPDATE;
  END IF;
  IF cardinality(ours) > 1 THEN
    PERFORM share_limits();
    PERFORM lock_spending(ours);
  END IF;
  FOR n IN 1 .. cardinality(tasks) LOOP
    place := n;
    done := CASE WHEN tasks[n] = ANY (ours) THEN complete_task(tasks[n], workers[n], tokens[n], answers[n], replayed[n]) END;
    RETURN NEXT;
  END LOOP;
END
$$;

-- As in 0004_lease.sql, and the money is settled; `needs`: the hold that was refused, of a task that waits for a budget.
DROP FUNCTION madrugada.end_attempt(bigint, bigint, bigint, attempt_ending, jsonb, boolean, timestamptz, text, integer);
CREATE FUNCTION madrugada.end_attempt(
  the_task bigint, the_worker bigint, token bigint, how attempt_ending, why jsonb, final boolean, wait_until timestamptz, wait_for text,
  replayed_calls integer, needs numeric DEFAULT NULL
) RETURNS task_state
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  gives_up boolean := false;
  undoes_first boolean;
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
  ELSIF wait_for = 'approval' AND NOT waits_for_person(the_task) THEN
    wait_until := NULL;
    wait_for := NULL;
  ELSIF wait_for = 'action' AND t.undoing IS NULL AND NOT waits_for_action(the_task) THEN
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
  undoes_first := gives_up AND has_effects(the_task);
  gives_up := gives_up AND NOT undoes_first;
  UPDATE task
     SET state = CASE WHEN gives_up THEN 'failed' ELSE 'pending' END::task_state, failure = CASE WHEN gives_up THEN why END,
         undoing = CASE WHEN undoes_first THEN coalesce(t.undoing, why) ELSE t.undoing END,
         attempts = CASE WHEN how = 'failed' THEN t.attempts ELSE t.attempts - 1 END,
         not_before = coalesce(wait_until, now()), waiting_for = wait_for, needs_usd = needs,
         slot = NULL, worker_id = NULL, lease_expires_at = NULL, spent_usd = journal_cost(t.batch_key, t.id)
   WHERE id = the_task;
  UPDATE attempt SET ended_at = now(), ending = how, error = why ->> 'message', replayed = replayed_calls
   WHERE task_id = the_task AND number = token;
  PERFORM settle_ended(ARRAY[the_task], ARRAY[token]);
  RETURN CASE WHEN gives_up THEN 'failed' ELSE 'pending' END::task_state;
END
$$;

-- As in 0004_lease.sql, and the money is settled.
CREATE OR REPLACE FUNCTION madrugada.lose_attempts(task_ids bigint[], why text) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  lost bigint[];
  tokens bigint[];
BEGIN
  PERFORM set_config('madrugada.reason', why, true);
  WITH judged AS (
    SELECT t.id, t.lease_token, b.max_attempts, b.max_losses,
           (EXISTS (SELECT FROM call_intent i WHERE i.batch_key = t.batch_key AND i.task_id = t.id AND i.attempt = t.lease_token)
            OR EXISTS (SELECT FROM step_record s WHERE s.batch_key = t.batch_key AND s.task_id = t.id AND s.attempt = t.lease_token))::integer AS recorded
      FROM task t JOIN batch b ON b.batch_key = t.batch_key
     WHERE t.id = ANY (task_ids) AND t.state = 'running'
  ), weighed AS (
    SELECT j.*, t.losses + recorded AS new_losses,
           t.attempts - t.losses - recorded >= j.max_attempts OR t.losses + recorded >= j.max_losses AS is_last,
           jsonb_build_object('kind', 'lost', 'message', 'every allowed attempt was lost with its process; last: ' || why) AS last_failure
      FROM judged j JOIN task t ON t.id = j.id
  ), decided AS (
    SELECT w.*, w.is_last AND NOT has_effects(w.id) AS gives_up FROM weighed w
  ), ended AS (
    UPDATE attempt a SET ended_at = now(), ending = 'lost', error = why FROM decided d WHERE a.task_id = d.id AND a.number = d.lease_token
  ), changed AS (
    UPDATE task t
       SET state = CASE WHEN d.gives_up THEN 'failed' ELSE 'pending' END::task_state, losses = d.new_losses,
           failure = CASE WHEN d.gives_up THEN coalesce(t.undoing, d.last_failure) END,
           undoing = CASE WHEN d.is_last AND NOT d.gives_up THEN coalesce(t.undoing, d.last_failure) ELSE t.undoing END,
           not_before = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL, spent_usd = journal_cost(t.batch_key, t.id)
      FROM decided d WHERE t.id = d.id
    RETURNING t.id, t.lease_token
  )
  SELECT array_agg(c.id), array_agg(c.lease_token) INTO lost, tokens FROM changed c;
  PERFORM settle_ended(lost, tokens);
  RETURN coalesce(cardinality(lost), 0);
END
$$;

-- As in 0004_lease.sql, and the money is settled.
CREATE OR REPLACE FUNCTION madrugada.give_back(task_ids bigint[], why text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM set_config('madrugada.reason', why, true);
  UPDATE attempt a SET ended_at = now(), ending = 'released', error = why
    FROM task t WHERE t.id = ANY (task_ids) AND a.task_id = t.id AND a.number = t.lease_token;
  UPDATE task t SET state = 'pending', attempts = t.attempts - 1, not_before = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL
   WHERE t.id = ANY (task_ids);
  PERFORM settle_ended(task_ids, ARRAY(SELECT t.lease_token FROM unnest(task_ids) WITH ORDINALITY g (id, place) JOIN task t USING (id) ORDER BY g.place));
END
$$;

-- As in 0004_lease.sql, and what its dispatches in doubt have held is settled, if they are. What came after the end of the attempt was spent, too.
CREATE OR REPLACE FUNCTION madrugada.wake_task(the_task bigint) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM FROM task t WHERE t.id = the_task FOR UPDATE;
  UPDATE task t SET not_before = now(), waiting_for = NULL
   WHERE t.id = the_task AND t.state = 'pending' AND t.waiting_for IN ('doubt', 'settlement');
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', (SELECT t.batch_key FROM task t WHERE t.id = the_task));
  END IF;
  UPDATE task t SET spent_usd = j.cost FROM task its CROSS JOIN LATERAL journal_cost(its.batch_key, its.id) j (cost)
   WHERE t.id = the_task AND its.id = the_task AND t.state <> 'running' AND t.spent_usd <> j.cost;
  PERFORM settle_ended(array_agg(a.task_id), array_agg(a.number)) FROM attempt a WHERE a.task_id = the_task AND a.held_usd > 0;
END
$$;

-- Once a second, from one worker of all: what was settled without anybody saying so, because its writer died in between; who waits for money
-- that is there; batches whose money is used up; and batches that spend too fast. Each a look at a partial index or a few small rows.
CREATE FUNCTION madrugada.tend_budgets() RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  b record;
  free_money record;
  spent numeric;
BEGIN
  IF NOT pg_try_advisory_xact_lock(slot_lock_class() + 1, 1) THEN
    RETURN;
  END IF;
  PERFORM wake_task(h.task_id)
    FROM (SELECT DISTINCT a.task_id FROM attempt a CROSS JOIN LATERAL attempt_money(a.task_id, a.number) m
           WHERE a.held_usd > 0 AND m.held <> a.held_usd ORDER BY a.task_id) h;
  PERFORM share_limits(); -- who raises a limit has the batch's row before the money; here the money comes first
  FOR b IN SELECT * FROM batch WHERE state = 'open' ORDER BY batch_key LOOP
    IF b.velocity_usd IS NOT NULL THEN
      spent := spent_lately(b.batch_key);
      IF spent > b.velocity_usd THEN
        PERFORM stop_automatically(b.batch_key, 'velocity', format(
          'US$ %s were spent or held within ten minutes, and its limit is US$ %s', trim_scale(spent), trim_scale(b.velocity_usd)));
        CONTINUE;
      END IF;
    END IF;
    IF has_limits(b.batch_key) THEN
      PERFORM wake_for_budget(b.batch_key);
      IF is_out_of_money(b.batch_key) THEN
        SELECT * INTO free_money FROM lock_free_money(b.batch_key, month_of(now()));
        PERFORM stop_automatically(b.batch_key, 'budget', format(
          '%s is used up: US$ %s are left, and no task can go on with that', free_money.reached, trim_scale(free_money.free)));
      END IF;
    END IF;
  END LOOP;
  DELETE FROM spending_minute s WHERE s.minute < now() - interval '1 hour';
END
$$;

-- Dollars settled in the last ten minutes, and held now by living workers.
CREATE FUNCTION madrugada.spent_lately(the_batch text) RETURNS numeric
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT coalesce(sum(s.settled_usd), 0) + coalesce((
             SELECT sum(last.held_usd) FROM (
               SELECT DISTINCT ON (m.worker_id) m.held_usd FROM spending_minute m JOIN worker w ON w.id = m.worker_id AND w.ended_at IS NULL
                WHERE m.batch_key = the_batch ORDER BY m.worker_id, m.minute DESC) last), 0)
      FROM spending_minute s WHERE s.batch_key = the_batch AND s.minute > now() - interval '11 minutes' -- whole minutes: rather one too many
  $$;

-- Nothing runs, nothing will wake by time alone, and what waits, or would begin, needs more than there is.
CREATE FUNCTION madrugada.is_out_of_money(the_batch text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  waits boolean := EXISTS (SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.needs_usd IS NOT NULL AND t.waiting_for = 'budget');
BEGIN
  IF EXISTS (SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'running')
     OR EXISTS (SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token > 0 AND t.not_before < 'infinity') THEN
    RETURN false;
  END IF;
  RETURN waits OR (
    EXISTS (SELECT FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token = 0)
    AND (SELECT f.free < s.usual_usd FROM lock_free_money(the_batch, month_of(now())) f, batch_spending s WHERE s.batch_key = the_batch));
END
$$;

-- What every attempt has drawn, counted anew from the journal: needed where a limit is set and none was before, right at any time. The caller
-- has locked the limits, so no attempt begins or ends meanwhile; running ones without an allowance are counted when they end.
CREATE FUNCTION madrugada.count_drawn(the_batch text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM settle_allowance(a.task_id, a.number)
    FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.batch_key = the_batch AND a.ended_at IS NOT NULL AND a.allowance_usd IS NULL;
END
$$;

-- A person sets what a batch may spend. Raising it wakes tasks that wait for money; it does not open a batch that was stopped.
CREATE FUNCTION madrugada.set_batch_limits(the_batch text, budget numeric, task_budget numeric, velocity numeric) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  b batch%ROWTYPE;
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a change of a budget needs a name and a reason';
  END IF;
  PERFORM lock_limits();
  SELECT * INTO b FROM batch WHERE batch_key = the_batch FOR NO KEY UPDATE;
  IF b.state NOT IN ('open', 'stopped') THEN
    RAISE EXCEPTION 'batch % is %', the_batch, b.state;
  END IF;
  UPDATE batch SET budget_usd = budget, task_budget_usd = task_budget, velocity_usd = velocity WHERE batch_key = the_batch;
  PERFORM record_event('batch', 'budget changed', the_batch, NULL, limits_text(b.budget_usd, b.task_budget_usd, b.velocity_usd),
    limits_text(budget, task_budget, velocity), NULL, NULL, NULL, said('reason'));
  PERFORM count_drawn(the_batch);
  PERFORM wake_for_budget(the_batch);
END
$$;

-- What a worker's group of the journal has settled, and all it holds then. A group repeated because its commit was not seen counts twice:
-- rather too much.
CREATE FUNCTION madrugada.note_spending(the_batch text, the_worker bigint, settled numeric, held numeric) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO spending_minute AS s (batch_key, minute, worker_id, settled_usd, held_usd)
    VALUES (the_batch, date_trunc('minute', now()), the_worker, greatest(settled, 0), greatest(held, 0))
    ON CONFLICT (batch_key, minute, worker_id) DO UPDATE SET settled_usd = s.settled_usd + EXCLUDED.settled_usd, held_usd = EXCLUDED.held_usd
  $$;

CREATE FUNCTION madrugada.limits_text(budget numeric, task_budget numeric, velocity numeric) RETURNS text
  LANGUAGE sql IMMUTABLE
  AS $$
    SELECT format('batch %s, task %s, ten minutes %s', coalesce('US$ ' || budget, 'no limit'), coalesce('US$ ' || task_budget, 'no limit'),
                  coalesce('US$ ' || velocity, 'no limit'))
  $$;

-- A person sets what all batches together may spend in a calendar month and, until it is changed, in the months after.
CREATE FUNCTION madrugada.set_month_limit(the_month date, cap numeric) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  before numeric := (SELECT m.cap_usd FROM month_spending m WHERE m.month = the_month);
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a change of a budget needs a name and a reason';
  END IF;
  PERFORM lock_limits();
  PERFORM count_drawn(b.batch_key) FROM batch b
    WHERE EXISTS (SELECT FROM task t JOIN attempt a ON a.task_id = t.id WHERE t.batch_key = b.batch_key AND month_of(a.started_at) = the_month);
  INSERT INTO month_spending (month, cap_usd, drawn_usd)
  SELECT the_month, cap, coalesce(sum(a.allowance_usd), 0) FROM attempt a
   WHERE a.started_at >= the_month AT TIME ZONE 'UTC' AND a.started_at < (the_month + interval '1 month') AT TIME ZONE 'UTC'
  ON CONFLICT (month) DO UPDATE SET cap_usd = EXCLUDED.cap_usd, drawn_usd = EXCLUDED.drawn_usd;
  PERFORM record_event('budget', 'month changed', NULL, NULL, coalesce('US$ ' || before, 'no limit'), coalesce('US$ ' || cap, 'no limit'),
    NULL, NULL, NULL, to_char(the_month, 'YYYY-MM') || ': ' || said('reason'));
  PERFORM wake_for_budget(b.batch_key) FROM (SELECT batch_key FROM batch WHERE state IN ('open', 'stopped') ORDER BY batch_key) b;
END
$$;
ALTER TABLE madrugada.audit_event DROP CONSTRAINT audit_event_subject_check,
  ADD CONSTRAINT audit_event_subject_check CHECK (subject IN ('batch', 'task', 'worker', 'stop', 'bill', 'price', 'alert', 'doubt', 'budget'));

CREATE FUNCTION madrugada.begin_spending() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  INSERT INTO batch_spending (batch_key) VALUES (NEW.batch_key);
  RETURN NULL;
END
$$;
CREATE TRIGGER batch_spending_begun AFTER INSERT ON madrugada.batch FOR EACH ROW EXECUTE FUNCTION madrugada.begin_spending();

-- As in 0006_operating.sql, with further settings (keys of `limits`, each may be missing).
DROP FUNCTION madrugada.load_batch(text, text, text, jsonb, text, integer, numeric, integer, integer, doubt_policy);
CREATE FUNCTION madrugada.load_batch(
  the_id text, the_version text, the_agent text, the_options jsonb, the_sha256 text, the_count integer, the_budget numeric,
  attempts integer, the_lease_seconds integer, policy doubt_policy, limits jsonb
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  the_key text;
BEGIN
  INSERT INTO batch (id, version, agent, agent_options, tasks_sha256, task_count, budget_usd, max_attempts, lease_seconds, doubt_policy,
    task_budget_usd, velocity_usd, max_output_tokens, fall_back_model, fall_back_after, stop_after_failures)
  VALUES (the_id, the_version, the_agent, the_options, the_sha256, the_count, the_budget, attempts, the_lease_seconds, policy,
    (limits ->> 'taskBudgetUsd')::numeric, (limits ->> 'velocityUsd')::numeric, (limits ->> 'maxOutputTokens')::integer,
    limits ->> 'fallBackModel', (limits ->> 'fallBackAfter')::integer, coalesce((limits ->> 'stopAfterFailures')::integer, 10))
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

-- The proof of invariant 7. drawn is the sum of the allowances and within the cap; every ended attempt's allowance is what the journal says it
-- spent and still holds; no running attempt has spent and holds more than its allowance. wrong_attempts counts those of which that is not true.
CREATE VIEW madrugada.audit_budget AS
SELECT b.batch_key, b.budget_usd, s.drawn_usd, m.spent_usd, m.held_usd, m.allowances_usd, m.wrong_attempts,
       s.drawn_usd <= coalesce(b.budget_usd, 'Infinity') AND s.drawn_usd = m.allowances_usd AND m.wrong_attempts = 0 AS holds
  FROM madrugada.batch b
  JOIN madrugada.batch_spending s ON s.batch_key = b.batch_key
 CROSS JOIN LATERAL (
   SELECT coalesce(sum(a.allowance_usd), 0) AS allowances_usd, coalesce(sum(j.spent), 0) AS spent_usd, coalesce(sum(j.held), 0) AS held_usd,
          count(*) FILTER (WHERE a.allowance_usd IS NOT NULL AND
            CASE WHEN a.ended_at IS NULL THEN j.spent + j.held > a.allowance_usd
                 ELSE (a.allowance_usd, a.held_usd) IS DISTINCT FROM (j.spent + j.held, j.held) END) AS wrong_attempts
     FROM madrugada.task t
     JOIN madrugada.attempt a ON a.task_id = t.id
    CROSS JOIN LATERAL madrugada.attempt_money(t.id, a.number) j
    WHERE t.batch_key = b.batch_key) m;

GRANT SELECT ON madrugada.batch_spending, madrugada.month_spending, madrugada.spending_minute, madrugada.audit_budget
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION
  madrugada.month_of(timestamptz), madrugada.has_limits(text), madrugada.spent_lately(text), madrugada.attempt_money(bigint, bigint)
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION
  madrugada.claim_task(text, text, bigint, text, integer), madrugada.draw_allowances(bigint[], bigint[], bigint[], numeric[], numeric[], boolean),
  madrugada.complete_tasks(bigint[], bigint[], bigint[], jsonb[], integer[], boolean),
  madrugada.end_attempt(bigint, bigint, bigint, attempt_ending, jsonb, boolean, timestamptz, text, integer, numeric), madrugada.tend_budgets(),
  madrugada.note_spending(text, bigint, numeric, numeric)
  TO madrugada_worker, madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.set_batch_limits(text, numeric, numeric, numeric), madrugada.set_month_limit(date, numeric),
  madrugada.load_batch(text, text, text, jsonb, text, integer, numeric, integer, integer, doubt_policy, jsonb)
  TO madrugada_operator;
