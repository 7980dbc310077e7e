-- What a person must hear of although nothing stops by it: a night that ends with failed tasks; and, with the stop, a server that is not the
-- one it was. Each is raised in the transaction that makes it so.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE INDEX task_failed ON madrugada.task (batch_key) WHERE state = 'failed';

-- A task has ended for good. If it was the batch's last, and any has failed, there is an alert, and only one, though the last two may end at
-- the same moment and none sees the other's end. Two locks of the batch, kept until the commit, see to that, and no completion waits for
-- another while nothing has failed: first `failing`, shared by completions and exclusive for failures, so that a failure waits for each
-- completion that saw none; then `last`, for all who know of a failure, so that the last of them sees what all others have done.
CREATE FUNCTION madrugada.tell_of_failed_tasks() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  failing bigint := hashtextextended('madrugada failing ' || NEW.batch_key, 0);
  last bigint := hashtextextended('madrugada last ' || NEW.batch_key, 0);
BEGIN
  IF NEW.state = 'failed' THEN
    PERFORM pg_advisory_xact_lock(failing);
  ELSE
    PERFORM pg_advisory_xact_lock_shared(failing);
    IF NOT EXISTS (SELECT FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'failed') THEN
      RETURN NULL;
    END IF;
  END IF;
  PERFORM pg_advisory_xact_lock(last);
  INSERT INTO alert (kind, batch_key, message)
  SELECT 'failed tasks', b.batch_key, format('%s of %s tasks failed, and no other is left: madrugada status %s lists them, madrugada retry KEY sends one back',
           (SELECT count(*) FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'failed'), b.task_count, b.batch_key)
    FROM batch b
   WHERE b.batch_key = NEW.batch_key AND b.state IN ('open', 'stopped') -- whoever closes a batch has looked
     AND EXISTS (SELECT FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'failed') -- retried already
     -- by the partial indexes task_fresh, task_again and task_held
     AND NOT EXISTS (SELECT FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'pending' AND t.lease_token = 0)
     AND NOT EXISTS (SELECT FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'pending' AND t.lease_token > 0)
     AND NOT EXISTS (SELECT FROM task t WHERE t.batch_key = NEW.batch_key AND t.state = 'running')
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
-- At the end of the transaction, when what it has locked otherwise is locked already.
CREATE CONSTRAINT TRIGGER task_last AFTER UPDATE ON madrugada.task DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.state IN ('completed', 'failed')) EXECUTE FUNCTION madrugada.tell_of_failed_tasks();

-- Whoever sends a failed task back has seen the alert: if it fails again, there is a new one.
CREATE FUNCTION madrugada.acknowledge_failed_tasks() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE alert a
     SET acknowledged_at = now(), acknowledged_by = coalesce(said('by'), session_user), ack_note = format('task %s retried: %s', NEW.key, said('reason'))
   WHERE a.batch_key = NEW.batch_key AND a.kind = 'failed tasks' AND a.acknowledged_at IS NULL;
  RETURN NULL;
END
$$;
CREATE TRIGGER task_retried AFTER UPDATE ON madrugada.task
  FOR EACH ROW WHEN (OLD.state = 'failed' AND NEW.state = 'pending') EXECUTE FUNCTION madrugada.acknowledge_failed_tasks();

-- As in 0006_operating.sql, with an alert. The server must be the one confirmed last: a way back to an earlier one is a restore as well.
CREATE OR REPLACE FUNCTION madrugada.check_server_identity() RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  the_system bigint := (SELECT system_identifier FROM pg_control_system());
  the_timeline integer := (SELECT timeline_id FROM pg_control_checkpoint());
  why text := format('the database is not the server it was (system %s, timeline %s): a restored backup or a failover may have lost the last records',
                     the_system, the_timeline);
BEGIN
  PERFORM pg_advisory_xact_lock(slot_lock_class(), 0);
  IF NOT EXISTS (SELECT FROM server_identity) THEN
    INSERT INTO server_identity (system_identifier, timeline_id) VALUES (the_system, the_timeline);
    RETURN true;
  END IF;
  IF server_is_known() THEN
    RETURN true;
  END IF;
  PERFORM stop_everything(why);
  INSERT INTO alert (kind, message)
  SELECT 'server', why WHERE NOT EXISTS ( -- acknowledged is not confirmed, and need not be said again by each worker that starts
    SELECT FROM alert a WHERE a.kind = 'server' AND a.message = why AND a.raised_at > (SELECT max(seen_at) FROM server_identity))
  ON CONFLICT DO NOTHING;
  RETURN false;
END
$$;

CREATE OR REPLACE FUNCTION madrugada.server_is_known() RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT NOT EXISTS (SELECT FROM server_identity) OR EXISTS (
      SELECT FROM (SELECT * FROM server_identity ORDER BY seen_at DESC LIMIT 1) i, pg_control_system() s, pg_control_checkpoint() c
       WHERE i.system_identifier = s.system_identifier AND i.timeline_id = c.timeline_id)
  $$;

CREATE OR REPLACE FUNCTION madrugada.confirm_server_identity() RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO server_identity (system_identifier, timeline_id)
    SELECT s.system_identifier, c.timeline_id FROM pg_control_system() s, pg_control_checkpoint() c
    ON CONFLICT (system_identifier, timeline_id) DO UPDATE SET seen_at = now();
    UPDATE alert SET acknowledged_at = now(), acknowledged_by = coalesce(said('by'), session_user), ack_note = 'server confirmed: ' || said('reason')
     WHERE kind = 'server' AND acknowledged_at IS NULL;
  $$;

GRANT EXECUTE ON FUNCTION madrugada.server_is_known() TO madrugada_worker, madrugada_auditor;
