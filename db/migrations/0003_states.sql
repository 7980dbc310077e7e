-- The state machine and its audit trail: only valid passages happen, whoever writes, and each leaves a row in the same transaction
-- (invariant 9). The triggers run as the schema's owner, because nobody else may insert into audit_event (rule R14).

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- Who gives the reason: commands set these for their transaction.
CREATE FUNCTION madrugada.said(setting text) RETURNS text
  LANGUAGE sql STABLE
  AS $$ SELECT nullif(pg_catalog.current_setting('madrugada.' || setting, true), '') $$;

CREATE FUNCTION madrugada.record_event(
  subject text, event text, batch_key text, task_id bigint, from_state text, to_state text,
  slot text, worker_id bigint, lease_token bigint, reason text
) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO audit_event (subject, event, batch_key, task_id, from_state, to_state, slot, worker_id, lease_token, reason, by_name, os_user)
    VALUES (subject, event, batch_key, task_id, from_state, to_state, slot, worker_id, lease_token, reason, said('by'), said('os_user'))
  $$;

CREATE FUNCTION madrugada.guard_task_state() RETURNS trigger
  LANGUAGE plpgsql SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (
    ('pending', 'running'), ('running', 'completed'), ('running', 'failed'), ('running', 'pending'), ('failed', 'pending'), ('pending', 'failed')
  ) THEN
    RAISE EXCEPTION 'task %: no passage from % to %', OLD.key, OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'pending' AND NEW.state = 'failed' AND NOT EXISTS (SELECT FROM batch b WHERE b.batch_key = OLD.batch_key AND b.state = 'stopped') THEN
    RAISE EXCEPTION 'task %: a pending task fails only when its batch is stopped', OLD.key USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.lease_token < OLD.lease_token THEN
    RAISE EXCEPTION 'task %: the lease token only grows', OLD.key USING ERRCODE = 'check_violation';
  END IF;
  IF (NEW.batch_id, NEW.item, NEW.version, NEW.position, NEW.input) IS DISTINCT FROM (OLD.batch_id, OLD.item, OLD.version, OLD.position, OLD.input) THEN
    RAISE EXCEPTION 'task %: a loaded task does not change', OLD.key USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER task_state_guard BEFORE UPDATE ON madrugada.task
  FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_state();

CREATE FUNCTION madrugada.audit_task_state() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  held task%ROWTYPE := CASE WHEN NEW.state = 'running' THEN NEW ELSE OLD END; -- the slot that has, or had, the lease
BEGIN
  INSERT INTO audit_event (subject, event, batch_key, task_id, from_state, to_state, slot, worker_id, lease_token, reason, by_name, os_user)
  VALUES ('task',
          CASE WHEN OLD.state = 'running' AND NEW.state = 'pending' THEN 'resumed'
               WHEN OLD.state = 'failed' THEN 'retried'
               WHEN NEW.state = 'running' THEN 'claimed'
               ELSE NEW.state::text END,
          NEW.batch_key, NEW.id, OLD.state::text, NEW.state::text, held.slot, held.worker_id, held.lease_token,
          coalesce(said('reason'), NEW.waiting_for, NEW.failure ->> 'message'), said('by'), said('os_user'));
  IF NEW.state = 'pending' AND NEW.not_before <= now() THEN
    PERFORM pg_notify('madrugada_work', NEW.batch_key);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER task_state_audit AFTER UPDATE ON madrugada.task
  FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION madrugada.audit_task_state();

-- A loaded batch is a closed list (invariant 8): tasks come only with their batch, in its own transaction, and all of them.
CREATE FUNCTION madrugada.guard_closed_list() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  late text;
BEGIN
  SELECT DISTINCT n.batch_key INTO late
    FROM new_tasks n JOIN batch b ON b.batch_key = n.batch_key
   WHERE b.loaded_in <> pg_current_xact_id() LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'batch % is a closed list: no task is added after it was loaded', late USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER task_closed_list AFTER INSERT ON madrugada.task
  REFERENCING NEW TABLE AS new_tasks FOR EACH STATEMENT EXECUTE FUNCTION madrugada.guard_closed_list();

CREATE FUNCTION madrugada.guard_task_delete() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM batch b WHERE b.batch_key = OLD.batch_key AND b.state = 'archived') THEN
    RAISE EXCEPTION 'task %: no task is removed from a batch that is not archived', OLD.key USING ERRCODE = 'check_violation';
  END IF;
  RETURN OLD;
END
$$;
CREATE TRIGGER task_delete_guard BEFORE DELETE ON madrugada.task
  FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_delete();

CREATE FUNCTION madrugada.guard_task_count() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  loaded integer := (SELECT count(*) FROM task t WHERE t.batch_key = NEW.batch_key);
BEGIN
  IF loaded <> NEW.task_count THEN
    RAISE EXCEPTION 'batch %: % tasks announced, % loaded', NEW.batch_key, NEW.task_count, loaded USING ERRCODE = 'check_violation';
  END IF;
  PERFORM pg_notify('madrugada_work', NEW.batch_key);
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER batch_task_count AFTER INSERT ON madrugada.batch
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_count();

CREATE FUNCTION madrugada.guard_batch_state() RETURNS trigger
  LANGUAGE plpgsql SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF NEW.state IS DISTINCT FROM OLD.state AND (OLD.state, NEW.state) NOT IN (
    ('open', 'stopped'), ('stopped', 'open'), ('open', 'closed'), ('stopped', 'closed'), ('closed', 'archived')
  ) THEN
    RAISE EXCEPTION 'batch %: no passage from % to %', OLD.batch_key, OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  IF (NEW.id, NEW.version, NEW.tasks_sha256, NEW.task_count, NEW.loaded_in) IS DISTINCT FROM (OLD.id, OLD.version, OLD.tasks_sha256, OLD.task_count, OLD.loaded_in) THEN
    RAISE EXCEPTION 'batch %: a loaded list does not change', OLD.batch_key USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER batch_state_guard BEFORE UPDATE ON madrugada.batch
  FOR EACH ROW EXECUTE FUNCTION madrugada.guard_batch_state();

CREATE FUNCTION madrugada.audit_batch_state() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('batch',
    CASE WHEN TG_OP = 'INSERT' THEN 'loaded' WHEN NEW.state = 'open' THEN 'reopened' ELSE NEW.state::text END, NEW.batch_key, NULL,
    CASE WHEN TG_OP = 'UPDATE' THEN OLD.state::text END, NEW.state::text, NULL, NULL, NULL, coalesce(said('reason'), NEW.stop_reason));
  IF NEW.state = 'open' THEN
    PERFORM pg_notify('madrugada_work', NEW.batch_key);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER batch_insert_audit AFTER INSERT ON madrugada.batch FOR EACH ROW EXECUTE FUNCTION madrugada.audit_batch_state();
CREATE TRIGGER batch_state_audit AFTER UPDATE ON madrugada.batch
  FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION madrugada.audit_batch_state();

CREATE FUNCTION madrugada.audit_worker() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('worker', CASE WHEN TG_OP = 'INSERT' THEN 'started' ELSE 'ended' END, NULL, NULL, NULL, NULL, NULL, NEW.id, NULL, NEW.ended_how);
  RETURN NULL;
END
$$;
CREATE TRIGGER worker_start_audit AFTER INSERT ON madrugada.worker FOR EACH ROW EXECUTE FUNCTION madrugada.audit_worker();
CREATE TRIGGER worker_end_audit AFTER UPDATE ON madrugada.worker
  FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION madrugada.audit_worker();

CREATE FUNCTION madrugada.audit_stop() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('stop', CASE WHEN TG_OP = 'INSERT' THEN 'stopped everything' ELSE 'lifted' END, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN TG_OP = 'INSERT' THEN NEW.reason ELSE said('reason') END);
  RETURN NULL;
END
$$;
CREATE TRIGGER stop_audit AFTER INSERT OR UPDATE ON madrugada.stop_switch FOR EACH ROW EXECUTE FUNCTION madrugada.audit_stop();

CREATE FUNCTION madrugada.audit_bill() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM record_event('bill', 'imported', NEW.batch_key, NULL, NULL, NULL, NULL, NULL, NULL,
    format('%s: %s lines, sha256 %s', NEW.source, NEW.line_count, NEW.sha256));
  RETURN NULL;
END
$$;
CREATE TRIGGER bill_audit AFTER INSERT ON madrugada.bill FOR EACH ROW EXECUTE FUNCTION madrugada.audit_bill();

-- History is not rewritten, by anybody (invariant 12). Pruning detaches and drops whole partitions and needs neither.
CREATE FUNCTION madrugada.refuse_change() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER intent_append_only BEFORE UPDATE OR DELETE ON madrugada.call_intent FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER outcome_append_only BEFORE UPDATE OR DELETE ON madrugada.call_outcome FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER step_append_only BEFORE UPDATE OR DELETE ON madrugada.step_record FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER audit_update_refused BEFORE UPDATE ON madrugada.audit_event FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
