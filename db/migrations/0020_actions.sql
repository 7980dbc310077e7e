-- Consequential actions: proposed by a task, decided by people, executed once under the task's lease, read back, undone when wrong
-- (invariant 11, rule R16). Nobody changes the rows but through the functions here, and every passage leaves an audit row.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- proposed -> approved -> in_flight -> committed is the good way. aborted: it took no effect. rolling_back: registered before the undo begins.
-- unknown: it cannot be told whether the effect is there. needs_person: it is known what is there, and it is not what it should be.
CREATE TYPE madrugada.action_state AS ENUM (
  'proposed', 'approved', 'rejected', 'expired', 'in_flight', 'committed', 'aborted', 'rolling_back', 'rolled_back', 'unknown', 'needs_person');
CREATE TYPE madrugada.action_approval AS ENUM ('none', 'person', 'two-people', 'challenge');

-- No foreign key to task or batch: what was done outside is to be found when the night has long been archived.
CREATE TABLE madrugada.action (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_id       text NOT NULL,
  item           text NOT NULL,
  name           text NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  arguments      jsonb NOT NULL,
  content_sha256 text NOT NULL,                                      -- of batch id, item, name and arguments; not of the version
  generation     integer NOT NULL CHECK (generation > 0),            -- grows only when the one before has ended without effect
  key            text NOT NULL UNIQUE,                               -- of content and generation: passed on to the target

  -- Who proposed it, and what it came from.
  batch_key      text NOT NULL,
  task_id        bigint NOT NULL,
  attempt        bigint NOT NULL,
  slot           text NOT NULL,
  agent          text NOT NULL,
  agent_sha256   text NOT NULL,
  lineage        integer[] NOT NULL,                                 -- calls (seq) whose answers the code had seen
  proposed_by    text NOT NULL,                                      -- whoever may not approve it
  proposed_at    timestamptz NOT NULL DEFAULT madrugada.now(),

  -- What people decide on. None of it may be missing (A2).
  kind           text NOT NULL CHECK (kind <> ''),
  intent         text NOT NULL CHECK (intent <> ''),
  permissions    text[] NOT NULL CHECK (cardinality(permissions) > 0),
  blast_radius   text NOT NULL CHECK (blast_radius <> ''),
  rollback_kind  text NOT NULL CHECK (rollback_kind IN ('in-band', 'compensating', 'out-of-band', 'none')),
  rollback_plan  text NOT NULL CHECK (rollback_plan <> ''),          -- of 'none': what cannot be undone
  present        jsonb,                                              -- what the target showed when it was proposed
  approval       madrugada.action_approval NOT NULL,
  expires_at     timestamptz NOT NULL,
  on_expiry      text NOT NULL CHECK (on_expiry IN ('reject', 'fail')),
  digest         text NOT NULL,                                      -- of all of this: what an approval is bound to
  reminded       integer NOT NULL DEFAULT 0,                         -- 1: reminded, 2: escalated

  state          madrugada.action_state NOT NULL DEFAULT 'proposed',
  why            text,                                               -- of the last passage

  -- The execution, as a dispatch has its sender.
  executed_for   bigint,                                             -- the task it is executed in, which undoes it when it fails: perhaps another
                                                                     -- version's than the one that has proposed it
  execution      integer NOT NULL DEFAULT 0,                         -- how often its effect was attempted
  undo           integer NOT NULL DEFAULT 0,                         -- how often its undo was
  worker_id      bigint,
  lease_token    bigint,
  deadline_at    timestamptz,
  gave_up_at     timestamptz,                                        -- its executor has stopped without knowing how it ended
  before         jsonb,                                              -- what undoing needs, from before the effect
  effect         jsonb,                                              -- what the execution returned
  evidence       jsonb,                                              -- what the last read-back found
  evidence_is_weak boolean NOT NULL DEFAULT false,
  committed_no   bigint,                                             -- a task's actions are undone in the reverse of this order
  decided_at     timestamptz,
  ended_at       timestamptz,
  UNIQUE (content_sha256, generation),
  CHECK (rollback_kind <> 'none' OR approval = 'challenge'),
  CHECK (expires_at > proposed_at),
  CHECK ((state IN ('in_flight', 'rolling_back')) <= (worker_id IS NOT NULL AND deadline_at IS NOT NULL AND executed_for IS NOT NULL)),
  CHECK ((state = 'committed') <= (committed_no IS NOT NULL AND evidence IS NOT NULL))
);
CREATE INDEX action_waiting ON madrugada.action (expires_at) WHERE state IN ('proposed', 'approved');
CREATE INDEX action_task ON madrugada.action (task_id);
CREATE INDEX action_executed_for ON madrugada.action (executed_for, committed_no);
CREATE INDEX action_batch ON madrugada.action (batch_key, id);

-- The n-th proposal of a content by a task, and the record it got (rule R16). A person's retry of the task retires those that ended without
-- effect, so that they are proposed anew.
CREATE TABLE madrugada.action_use (
  task_id    bigint NOT NULL,
  content_sha256 text NOT NULL,
  ordinal    integer NOT NULL CHECK (ordinal > 0),
  step       text NOT NULL,                                          -- under which name the journal keeps its outcome (step_record)
  action_id  bigint NOT NULL,                                        -- no foreign key: its lock on the action would close a circle with a decision's
  used_at    timestamptz NOT NULL DEFAULT madrugada.now(),
  retired_at timestamptz
);
CREATE UNIQUE INDEX action_use_current ON madrugada.action_use (task_id, content_sha256, ordinal) WHERE retired_at IS NULL;
CREATE INDEX action_use_retired ON madrugada.action_use (task_id) WHERE retired_at IS NOT NULL;
CREATE INDEX action_use_action ON madrugada.action_use (action_id);

-- What people have said of it. One person counts once.
CREATE TABLE madrugada.action_decision (
  action_id  bigint NOT NULL REFERENCES madrugada.action (id),
  by_name    text NOT NULL,
  person     text GENERATED ALWAYS AS (lower(btrim(by_name))) STORED,
  verdict    text NOT NULL CHECK (verdict IN ('approve', 'reject')),
  digest     text NOT NULL,
  checklist  text[] NOT NULL,
  reason     text,
  decided_at timestamptz NOT NULL DEFAULT madrugada.now(),
  session_user_name text NOT NULL DEFAULT session_user,
  os_user    text,
  client_addr inet DEFAULT inet_client_addr(),
  PRIMARY KEY (action_id, person, verdict)
);
CREATE TRIGGER decision_append_only BEFORE UPDATE OR DELETE ON madrugada.action_decision
  FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();

-- A workflow's rehearsal: crashed, resumed, made to fail its verification. Without a passing one its actions are refused at night.
CREATE TABLE madrugada.rehearsal (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  agent_sha256 text NOT NULL,
  agent        text NOT NULL,
  verdict      text NOT NULL CHECK (verdict IN ('production', 'staging', 'research-only')),
  report       jsonb NOT NULL,
  rehearsed_at timestamptz NOT NULL DEFAULT madrugada.now(),
  by_name      text NOT NULL
);
CREATE INDEX rehearsal_agent ON madrugada.rehearsal (agent_sha256, id);
CREATE TRIGGER rehearsal_append_only BEFORE UPDATE OR DELETE ON madrugada.rehearsal
  FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
ALTER TABLE madrugada.batch ADD COLUMN unrehearsed boolean NOT NULL DEFAULT false; -- a person lets its actions be proposed without a rehearsal

-- Its failure is decided, but actions of it are in effect: the next attempt undoes them, and only then does it fail.
ALTER TABLE madrugada.task ADD COLUMN undoing jsonb,
  DROP CONSTRAINT task_waiting_for_check,
  ADD CONSTRAINT task_waiting_for_check CHECK (waiting_for IN ('doubt', 'settlement', 'refusal', 'budget', 'approval', 'action'));

ALTER TYPE madrugada.step_kind ADD VALUE 'action';

ALTER TABLE madrugada.alert ADD COLUMN action_id bigint;
DROP INDEX madrugada.alert_open;
CREATE UNIQUE INDEX alert_open ON madrugada.alert (kind, batch_key, action_id) NULLS NOT DISTINCT WHERE acknowledged_at IS NULL;

ALTER TABLE madrugada.audit_event ADD COLUMN action_id bigint, DROP CONSTRAINT audit_event_subject_check,
  ADD CONSTRAINT audit_event_subject_check CHECK (subject IN (
    'batch', 'task', 'worker', 'stop', 'bill', 'price', 'alert', 'doubt', 'budget', 'action', 'rehearsal'));
CREATE INDEX audit_event_action ON madrugada.audit_event (action_id, id) WHERE action_id IS NOT NULL;

CREATE FUNCTION madrugada.sha256_hex(what text) RETURNS text
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT encode(sha256(convert_to(what, 'UTF8')), 'hex') $$;

-- What a task proposes, whatever the version of its batch: the same content is the same action.
CREATE FUNCTION madrugada.action_content(batch_id text, item text, name text, arguments jsonb) RETURNS text
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT madrugada.sha256_hex(jsonb_build_array(batch_id, item, name, arguments)::text) $$;

-- What an approver sees is what the approval is bound to (A3).
CREATE FUNCTION madrugada.action_digest(a action) RETURNS text
  LANGUAGE sql IMMUTABLE
  AS $$
    SELECT madrugada.sha256_hex(jsonb_build_array(a.key, a.batch_id, a.item, a.name, a.arguments, a.generation, a.kind, a.intent, a.permissions,
      a.blast_radius, a.rollback_kind, a.rollback_plan, a.approval, extract(epoch FROM a.expires_at), a.on_expiry, a.proposed_by, a.lineage, a.present)::text)
  $$;

-- What the approver of something that cannot be undone types.
CREATE FUNCTION madrugada.action_challenge(a action) RETURNS text
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT left(a.digest, 8) || ' ' || btrim(regexp_replace(a.rollback_plan, '\s+', ' ', 'g')) $$;

-- No effect is left of it, so the same content may be proposed as another generation.
CREATE FUNCTION madrugada.is_without_effect(state action_state) RETURNS boolean
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT state IN ('rejected', 'expired', 'aborted', 'rolled_back') $$;

CREATE FUNCTION madrugada.guard_action() RETURNS trigger
  LANGUAGE plpgsql SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'action % is history: it is not deleted', OLD.id USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.content_sha256 := action_content(NEW.batch_id, NEW.item, NEW.name, NEW.arguments);
    NEW.key := sha256_hex(NEW.content_sha256 || '/' || NEW.generation);
    NEW.digest := action_digest(NEW);
    RETURN NEW;
  END IF;
  -- Compared with the old row, not with its digest: a row that somebody has changed past this guard must still be able to end.
  IF action_digest(NEW) <> action_digest(OLD) OR NEW.digest <> OLD.digest OR NEW.content_sha256 <> OLD.content_sha256 OR NEW.task_id <> OLD.task_id THEN
    RAISE EXCEPTION 'action %: what was proposed does not change; propose another', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.state <> OLD.state AND (OLD.state, NEW.state) NOT IN (
    ('proposed', 'approved'), ('proposed', 'rejected'), ('proposed', 'expired'),
    ('approved', 'rejected'), ('approved', 'expired'), ('approved', 'aborted'), ('approved', 'in_flight'),
    ('in_flight', 'committed'), ('in_flight', 'aborted'), ('in_flight', 'rolling_back'), ('in_flight', 'unknown'), ('in_flight', 'needs_person'),
    ('committed', 'rolling_back'), ('committed', 'needs_person'),
    ('rolling_back', 'rolled_back'), ('rolling_back', 'needs_person'), ('rolling_back', 'unknown'),
    ('unknown', 'committed'), ('unknown', 'aborted'), ('unknown', 'rolled_back'),
    ('needs_person', 'committed'), ('needs_person', 'aborted'), ('needs_person', 'rolled_back')
  ) THEN
    RAISE EXCEPTION 'action %: no passage from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER action_guard BEFORE INSERT OR UPDATE OR DELETE ON madrugada.action FOR EACH ROW EXECUTE FUNCTION madrugada.guard_action();

CREATE FUNCTION madrugada.note_action(a action, event text, from_state text, reason text) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO audit_event (subject, event, batch_key, task_id, action_id, from_state, to_state, slot, worker_id, lease_token, reason, by_name, os_user)
    VALUES ('action', event, a.batch_key, a.task_id, a.id, from_state, a.state::text, a.slot, a.worker_id, a.lease_token, reason, said('by'), said('os_user'))
  $$;

-- A person is told where one is needed, in the same transaction; what they were told of before the decision is answered by it.
CREATE FUNCTION madrugada.audit_action() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  which text := format('action %s (%s) of task %s:%s', NEW.id, NEW.name, NEW.batch_id, NEW.item);
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM note_action(NEW, 'proposed', NULL, NEW.intent);
    IF NEW.approval <> 'none' THEN
      PERFORM raise_action_alert(NEW, 'approval', format('%s waits for approval until %s: %s', which, NEW.expires_at, NEW.intent));
    END IF;
    RETURN NULL;
  END IF;
  PERFORM note_action(NEW,
    CASE WHEN NEW.state <> OLD.state THEN replace(NEW.state::text, '_', ' ') WHEN NEW.undo > OLD.undo THEN 'undone again' ELSE 'executed again' END,
    OLD.state::text, NEW.why);
  IF OLD.state = 'proposed' THEN
    UPDATE alert x SET acknowledged_at = now(), acknowledged_by = coalesce(said('by'), 'madrugada'), ack_note = NEW.state::text
     WHERE x.action_id = NEW.id AND x.acknowledged_at IS NULL AND x.kind IN ('approval', 'approval reminder', 'approval escalation');
  END IF;
  IF NEW.state <> OLD.state THEN
    IF NEW.state IN ('expired', 'unknown', 'needs_person') OR NEW.state = 'aborted' AND said('by') IS NULL OR NEW.state = 'rolling_back' THEN
      PERFORM raise_action_alert(NEW, 'action ' || replace(NEW.state::text, '_', ' '), format('%s: %s', which, coalesce(NEW.why, NEW.state::text)));
    END IF;
    IF NEW.state NOT IN ('in_flight', 'rolling_back') THEN
      PERFORM wake_action_tasks(NEW.id);
    END IF;
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER action_insert_audit AFTER INSERT ON madrugada.action FOR EACH ROW EXECUTE FUNCTION madrugada.audit_action();
CREATE TRIGGER action_state_audit AFTER UPDATE ON madrugada.action FOR EACH ROW
  WHEN (OLD.state <> NEW.state OR OLD.execution <> NEW.execution OR OLD.undo <> NEW.undo) EXECUTE FUNCTION madrugada.audit_action();

CREATE FUNCTION madrugada.raise_action_alert(a action, kind text, message text) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    INSERT INTO alert (kind, batch_key, task_id, action_id, message) VALUES (kind, a.batch_key, a.task_id, a.id, message) ON CONFLICT DO NOTHING
  $$;

-- As before, but for the alerts of actions: who opens a batch again has not thereby decided on them, or looked what became of them.
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
   WHERE a.batch_key = the_batch AND a.action_id IS NULL AND a.acknowledged_at IS NULL;
  UPDATE failure_streak f SET failures = 0 WHERE f.batch_key = the_batch;
  RETURN true;
END
$$;

-- Tasks that wait for this action go on: those parked, and by the lock those that are just being parked (see end_attempt).
CREATE FUNCTION madrugada.wake_action_tasks(the_action bigint) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  waiting bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE t.id IN (SELECT u.task_id FROM action_use u WHERE u.action_id = the_action AND u.retired_at IS NULL)
     ORDER BY t.id FOR UPDATE);
BEGIN
  UPDATE task t SET not_before = now(), waiting_for = NULL
   WHERE t.id = ANY (waiting) AND t.state = 'pending' AND t.waiting_for IN ('approval', 'action');
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', a.batch_key) FROM action a WHERE a.id = the_action;
  END IF;
END
$$;

-- Does a person still have to decide before this task can go on, or to look at what became of an action?
CREATE FUNCTION madrugada.waits_for_person(the_task bigint) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT EXISTS (SELECT FROM action_use u JOIN action a ON a.id = u.action_id
      WHERE u.task_id = the_task AND u.retired_at IS NULL AND a.state IN ('proposed', 'unknown', 'needs_person'))
  $$;

-- Is an action of this task still on its way to an end? One that has come to it while the task was about to wait has woken nobody.
CREATE FUNCTION madrugada.waits_for_action(the_task bigint) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT EXISTS (SELECT FROM action_use u JOIN action a ON a.id = u.action_id
      WHERE u.task_id = the_task AND u.retired_at IS NULL AND a.state IN ('approved', 'in_flight', 'rolling_back'))
  $$;

-- Has another task got this action's effect for its answer, or may it yet? Then it is not undone because one of them has failed.
CREATE FUNCTION madrugada.another_relies_on(the_action bigint, the_task bigint) RETURNS text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT min(t.key) FROM action_use u JOIN task t ON t.id = u.task_id
     WHERE u.action_id = the_action AND u.task_id <> the_task AND u.retired_at IS NULL AND t.state <> 'failed'
  $$;

-- Has this task changed something outside that stands, or may stand, and can still be taken back? Then it does not fail before it was.
CREATE FUNCTION madrugada.has_effects(the_task bigint) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$ SELECT EXISTS (SELECT FROM action a WHERE a.executed_for = the_task AND a.state IN ('in_flight', 'committed', 'rolling_back')) $$;

-- The lease's holder, in an open batch, with no stop in force: as for a dispatch (rule R1). The lock makes a takeover wait.
CREATE FUNCTION madrugada.holds_lease(the_task bigint, the_worker bigint, token bigint) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
BEGIN
  SELECT * INTO t FROM task WHERE id = the_task FOR SHARE;
  RETURN t.state = 'running' AND t.worker_id = the_worker AND t.lease_token = token AND t.lease_expires_at > now();
END
$$;
CREATE FUNCTION madrugada.may_work(the_task bigint) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT NOT is_stopped() AND EXISTS (SELECT FROM task t JOIN batch b USING (batch_key) WHERE t.id = the_task AND b.state = 'open')
  $$;

-- A task proposes an action, or finds the record it has proposed before. No row: the lease is lost, or work is stopped. `proposal` holds name,
-- kind, arguments, intent, permissions, blast_radius, rollback_kind, rollback_plan, present, approval, expires_in_ms, on_expiry, lineage,
-- proposed_by; what is missing is refused by the table's constraints.
CREATE FUNCTION madrugada.propose_action(the_task bigint, the_worker bigint, token bigint, the_ordinal integer, proposal jsonb) RETURNS SETOF action
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  t task%ROWTYPE;
  b batch%ROWTYPE;
  a action%ROWTYPE;
  n action_use%ROWTYPE;
  content text;
  the_agent text;
BEGIN
  IF NOT holds_lease(the_task, the_worker, token) OR NOT may_work(the_task) THEN
    RETURN;
  END IF;
  SELECT * INTO t FROM task WHERE id = the_task;
  SELECT * INTO b FROM batch WHERE batch_key = t.batch_key;
  content := action_content(t.batch_id, t.item, proposal ->> 'name', proposal -> 'arguments');
  PERFORM pg_advisory_xact_lock(hashtextextended('madrugada action ' || content, 0)); -- of another version of this batch, at the same moment
  SELECT * INTO n FROM action_use u WHERE u.task_id = the_task AND u.content_sha256 = content AND u.ordinal = the_ordinal AND u.retired_at IS NULL;
  IF FOUND THEN
    RETURN QUERY SELECT * FROM action WHERE id = n.action_id;
    RETURN;
  END IF;
  SELECT * INTO a FROM action x WHERE x.content_sha256 = content ORDER BY x.generation DESC LIMIT 1;
  IF NOT FOUND OR is_without_effect(a.state) THEN
    SELECT p.agent_sha256 INTO the_agent FROM attempt p WHERE p.task_id = the_task AND p.number = token;
    IF NOT b.unrehearsed AND NOT is_rehearsed(the_agent) THEN
      RAISE EXCEPTION 'agent % has no passing rehearsal in this version, so its actions are refused', b.agent
        USING HINT = 'run madrugada rehearse module on it, or load the batch with --unrehearsed', ERRCODE = 'MD001';
    END IF;
    INSERT INTO action (batch_id, item, name, arguments, content_sha256, generation, key, digest, batch_key, task_id, attempt, slot, agent, agent_sha256,
                        lineage, proposed_by, kind, intent, permissions, blast_radius, rollback_kind, rollback_plan, present, approval, expires_at, on_expiry)
    VALUES (t.batch_id, t.item, proposal ->> 'name', proposal -> 'arguments', '', coalesce(a.generation, 0) + 1, '', '', t.batch_key, t.id, token, t.slot,
            b.agent, the_agent, ARRAY(SELECT jsonb_array_elements_text(proposal -> 'lineage')::integer), proposal ->> 'proposed_by', proposal ->> 'kind',
            proposal ->> 'intent', ARRAY(SELECT jsonb_array_elements_text(proposal -> 'permissions')), proposal ->> 'blast_radius',
            proposal ->> 'rollback_kind', proposal ->> 'rollback_plan', proposal -> 'present', (proposal ->> 'approval')::action_approval,
            now() + (proposal ->> 'expires_in_ms')::bigint * interval '1 millisecond', proposal ->> 'on_expiry')
    RETURNING * INTO a;
    IF a.approval = 'none' THEN
      UPDATE action x SET state = 'approved', decided_at = now(), why = 'its definition asks for no approval' WHERE x.id = a.id RETURNING * INTO a;
    END IF;
  END IF;
  INSERT INTO action_use (task_id, content_sha256, ordinal, step, action_id) VALUES (the_task, content, the_ordinal, proposal ->> 'step', a.id);
  RETURN NEXT a;
END
$$;

-- The latest rehearsal of this very code counts.
CREATE FUNCTION madrugada.is_rehearsed(the_agent text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$ SELECT coalesce((SELECT r.verdict = 'production' FROM rehearsal r WHERE r.agent_sha256 = the_agent ORDER BY r.id DESC LIMIT 1), false) $$;

-- The role the caller works under, seen from within a function that runs as the owner.
CREATE FUNCTION madrugada.calling_role() RETURNS text
  LANGUAGE sql STABLE
  AS $$ SELECT coalesce(nullif(current_setting('role'), 'none'), session_user) $$;

-- A person's decision, bound to what was shown. Nothing is raised for what is refused, because the refusal is put on record, too. Verdicts:
-- approved, rejected, 'waiting' (for a second person), 'already' (this was decided before; nothing has changed), refused.
CREATE FUNCTION madrugada.decide_action(
  the_action bigint, shown_digest text, the_verdict text, challenge text, the_checklist text[], OUT outcome text, OUT message text
)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a action%ROWTYPE;
  people integer;
BEGIN
  SELECT * INTO a FROM action WHERE id = the_action FOR UPDATE;
  IF NOT FOUND THEN
    outcome := 'refused';
    message := format('there is no action %s', the_action);
    RETURN;
  END IF;
  IF a.state = 'proposed' AND a.expires_at <= now() THEN
    UPDATE action x SET state = 'expired', ended_at = now(), why = format('nobody decided until %s', x.expires_at) WHERE x.id = a.id RETURNING * INTO a;
  END IF;
  message := refusal_of_decision(a, shown_digest, the_verdict, challenge, the_checklist);
  IF message IS NOT NULL THEN
    outcome := CASE WHEN message LIKE 'already %' THEN 'already' ELSE 'refused' END;
    IF outcome = 'refused' THEN
      PERFORM note_action(a, the_verdict || ' refused', a.state::text, format('%s (by role %s)', message, calling_role()));
    END IF;
    RETURN;
  END IF;
  INSERT INTO action_decision (action_id, by_name, verdict, digest, checklist, reason, os_user)
  VALUES (a.id, said('by'), the_verdict, a.digest, the_checklist, said('reason'), said('os_user')) ON CONFLICT DO NOTHING;
  IF the_verdict = 'reject' THEN
    UPDATE action x SET state = 'rejected', decided_at = now(), ended_at = now(), why = format('rejected by %s: %s', said('by'), said('reason')) WHERE x.id = a.id;
    outcome := 'rejected';
    RETURN;
  END IF;
  SELECT count(DISTINCT d.person) INTO people FROM action_decision d WHERE d.action_id = a.id AND d.verdict = 'approve';
  IF people < (CASE WHEN a.approval = 'two-people' THEN 2 ELSE 1 END) THEN
    PERFORM note_action(a, 'approved by one', 'proposed', format('%s; a second person is needed', concat_ws(': ', said('by'), said('reason'))));
    outcome := 'waiting';
    message := 'a second person must approve it, too';
    RETURN;
  END IF;
  UPDATE action x SET state = 'approved', decided_at = now(), why = concat_ws(': ', 'approved by ' || said('by'), said('reason')) WHERE x.id = a.id;
  outcome := 'approved';
END
$$;

-- Why a decision does not count; NULL: it does. What begins with 'already' was decided before.
CREATE FUNCTION madrugada.refusal_of_decision(a action, shown_digest text, the_verdict text, challenge text, the_checklist text[]) RETURNS text
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  missing text;
BEGIN
  IF NOT pg_has_role(calling_role(), 'madrugada_approver', 'USAGE') THEN
    RETURN format('role %s may not decide on actions: that takes madrugada_approver', calling_role());
  END IF;
  IF the_verdict NOT IN ('approve', 'reject') OR said('by') IS NULL OR the_verdict = 'reject' AND said('reason') IS NULL THEN
    RETURN 'a decision is made by a person, with a name; a rejection also gives a reason';
  END IF;
  IF lower(btrim(said('by'))) IN (lower(btrim(a.proposed_by)), lower(a.slot), lower(a.agent)) THEN
    RETURN format('%s has proposed it, and so cannot decide on it', said('by'));
  END IF;
  IF shown_digest <> a.digest THEN
    RETURN format('what was shown to you (digest %s) is not what is proposed now (%s): look at it again', left(shown_digest, 12), left(a.digest, 12));
  END IF;
  IF the_verdict = 'approve' AND action_digest(a) <> a.digest THEN
    RETURN 'what is stored is not what was proposed: somebody has changed it past the guard; reject it';
  END IF;
  IF the_verdict = 'reject' THEN
    RETURN CASE WHEN a.state = 'rejected' THEN 'already rejected' WHEN a.state NOT IN ('proposed', 'approved') THEN
      format('it is %s: there is nothing to reject any more', replace(a.state::text, '_', ' ')) END;
  END IF;
  IF a.state IN ('rejected', 'expired') THEN
    RETURN format('it is %s: %s', a.state, a.why);
  END IF;
  IF a.state <> 'proposed' THEN
    RETURN format('already %s', CASE WHEN a.state = 'approved' THEN 'approved' ELSE 'approved; it is ' || replace(a.state::text, '_', ' ') || ' now' END);
  END IF;
  IF EXISTS (SELECT FROM action_decision d WHERE d.action_id = a.id AND d.verdict = 'approve' AND d.person = lower(btrim(said('by')))) THEN
    RETURN 'already approved by you; a second person must approve it, too';
  END IF;
  IF a.approval = 'challenge' AND btrim(regexp_replace(coalesce(challenge, ''), '\s+', ' ', 'g')) <> action_challenge(a) THEN
    RETURN format('it cannot be undone, and the challenge typed is not the right one; type exactly: %s', action_challenge(a));
  END IF;
  IF a.rollback_kind = 'none' THEN
    SELECT string_agg(c, ', ') INTO missing FROM unnest(ARRAY['resource', 'blast-radius', 'rollback']) c WHERE c <> ALL (the_checklist);
    IF missing IS NOT NULL THEN
      RETURN format('it cannot be undone, so every point of the checklist must be checked; missing: %s', missing);
    END IF;
  END IF;
  RETURN NULL;
END
$$;

-- May the effect of an execution that has not said how it ended still be on its way? Not when its executor gave up itself, or is proven dead,
-- or its deadline is 30 s past (rule R5).
CREATE FUNCTION madrugada.executor_at_work(a action) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT a.gave_up_at IS NULL AND a.deadline_at + interval '30 seconds' >= now()
       AND NOT EXISTS (SELECT FROM worker w WHERE w.id = a.worker_id AND w.ended_at IS NOT NULL)
  $$;

-- Since when it is certain that nothing of it is sent any more; in the future while its executor may be at work.
CREATE FUNCTION madrugada.executor_gone_at(a action) RETURNS timestamptz
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$ SELECT coalesce(a.gave_up_at, (SELECT w.ended_at FROM worker w WHERE w.id = a.worker_id), a.deadline_at + interval '30 seconds') $$;

-- "In flight" before the effect, with what undoing it needs, under the lease (A5). NULL: go on. Else why not, and then nothing may be done.
-- `seen_execution`: how often it had been executed when the precondition, or the target, was looked at. Tasks of two versions share an action:
-- what one of them has seen, the other may have outrun.
CREATE FUNCTION madrugada.begin_execution(
  the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, kept_before jsonb, within_ms bigint
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a action%ROWTYPE;
BEGIN
  SELECT * INTO a FROM action WHERE id = the_action FOR UPDATE;
  IF NOT holds_lease(the_task, the_worker, token) THEN
    RETURN 'lost';
  END IF;
  IF NOT may_work(the_task) THEN
    RETURN 'stopped';
  END IF;
  IF a.state = 'in_flight' AND a.execution = seen_execution + 1 AND (a.executed_for, a.worker_id, a.lease_token) = (the_task, the_worker, token) THEN
    RETURN NULL; -- it was said before, and the answer was lost on its way
  ELSIF a.execution <> seen_execution THEN
    RETURN 'it was executed meanwhile';
  ELSIF a.state = 'in_flight' THEN
    IF executor_at_work(a) THEN
      RETURN 'another executor may still be at work';
    END IF;
  ELSIF a.state <> 'approved' THEN
    RETURN format('it is %s', a.state);
  ELSIF a.expires_at <= now() THEN
    UPDATE action x SET state = 'expired', ended_at = now(), why = format('approved, but not executed until %s', x.expires_at) WHERE x.id = a.id;
    RETURN 'it is expired';
  ELSIF NOT is_approved_as_it_is(a) THEN
    UPDATE action x SET state = 'aborted', ended_at = now(), why = 'what is to be executed is not what was approved' WHERE x.id = a.id;
    RETURN 'it is aborted';
  END IF;
  UPDATE action x
     SET state = 'in_flight', execution = x.execution + 1, executed_for = the_task, worker_id = the_worker, lease_token = token, gave_up_at = NULL,
         deadline_at = now() + within_ms * interval '1 millisecond', before = coalesce(x.before, kept_before), effect = NULL, why = NULL
   WHERE x.id = a.id;
  RETURN NULL;
END
$$;

-- The arguments, and all else that was shown, are those that enough people have approved (case 33): also when somebody got round the guard.
CREATE FUNCTION madrugada.is_approved_as_it_is(a action) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    SELECT action_digest(a) = a.digest AND (a.approval = 'none' OR
      (SELECT count(DISTINCT d.person) FROM action_decision d WHERE d.action_id = a.id AND d.verdict = 'approve' AND d.digest = a.digest)
        >= CASE WHEN a.approval = 'two-people' THEN 2 ELSE 1 END)
  $$;

-- What the execution returned, before it is read back. False: somebody else executes it now.
CREATE FUNCTION madrugada.record_effect(the_action bigint, the_worker bigint, the_execution integer, returned jsonb) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE action a SET effect = returned
   WHERE a.id = the_action AND a.worker_id = the_worker AND a.execution = the_execution AND a.state = 'in_flight';
  RETURN FOUND;
END
$$;

-- An executor that lives says it will not bring the effect any more, although it does not know whether it did.
CREATE FUNCTION madrugada.give_up_execution(the_action bigint, the_worker bigint) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
    UPDATE action a SET gave_up_at = coalesce(a.gave_up_at, now()) -- the first time counts: how long a target is silent is measured from it
     WHERE a.id = the_action AND a.worker_id = the_worker AND a.state IN ('in_flight', 'rolling_back')
  $$;

-- The end of an execution or an undo, as read back. Only who holds the task's lease, only while nobody else executes it, and only of what was
-- read back: `seen_execution` and `seen_undo` say when. False: not any more.
CREATE FUNCTION madrugada.conclude_action(
  the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, seen_undo integer, to_state action_state,
  read_back jsonb, weak boolean, because text
) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a action%ROWTYPE;
BEGIN
  IF to_state NOT IN ('committed', 'aborted', 'rolled_back', 'unknown', 'needs_person') THEN
    RAISE EXCEPTION 'an execution does not end as %', to_state;
  END IF;
  SELECT * INTO a FROM action WHERE id = the_action FOR UPDATE;
  IF NOT holds_lease(the_task, the_worker, token) OR (a.execution, a.undo) <> (seen_execution, seen_undo)
     OR (a.executed_for, a.worker_id, a.lease_token) <> (the_task, the_worker, token) AND executor_at_work(a) THEN
    RETURN false;
  END IF;
  UPDATE action x
     SET state = to_state, evidence = coalesce(read_back, x.evidence), evidence_is_weak = weak, why = because, gave_up_at = now(),
         committed_no = CASE WHEN to_state = 'committed' THEN nextval('journal_no') ELSE x.committed_no END, ended_at = now()
   WHERE x.id = a.id;
  RETURN true;
END
$$;

-- The undo is registered before it begins (A8), and given to a person after the fifth. NULL: go on; else why not. A stop halts the undoing of
-- what stands; what is just found to be wrong is taken back all the same. What another task relies on is left to a person, too.
CREATE FUNCTION madrugada.begin_undo(
  the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, seen_undo integer, seen jsonb, within_ms bigint,
  because text
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a action%ROWTYPE;
  another text;
BEGIN
  SELECT * INTO a FROM action WHERE id = the_action FOR UPDATE;
  IF NOT holds_lease(the_task, the_worker, token) THEN
    RETURN 'lost';
  END IF;
  IF a.state = 'rolling_back' AND a.undo = seen_undo + 1 AND (a.executed_for, a.worker_id, a.lease_token) = (the_task, the_worker, token) THEN
    RETURN NULL; -- it was said before, and the answer was lost on its way
  ELSIF (a.execution, a.undo) <> (seen_execution, seen_undo) THEN
    RETURN 'it was executed or undone meanwhile';
  END IF;
  IF a.state = 'committed' AND NOT may_work(the_task) THEN
    RETURN 'stopped';
  END IF;
  IF a.state NOT IN ('in_flight', 'committed', 'rolling_back') THEN
    RETURN format('it is %s', a.state);
  END IF;
  IF (a.executed_for, a.worker_id, a.lease_token) <> (the_task, the_worker, token) AND a.state <> 'committed' AND executor_at_work(a) THEN
    RETURN 'another executor may still be at work';
  END IF;
  another := another_relies_on(a.id, the_task);
  IF a.state = 'committed' AND another IS NOT NULL THEN
    UPDATE action x SET state = 'needs_person', why = format('%s; but task %s relies on it', because, another), ended_at = now() WHERE x.id = a.id;
    RETURN 'it needs a person';
  END IF;
  IF a.undo >= 5 THEN
    UPDATE action x SET state = 'needs_person', why = format('it could not be undone in %s tries; last: %s', x.undo, because), ended_at = now() WHERE x.id = a.id;
    RETURN 'it needs a person';
  END IF;
  UPDATE action x
     SET state = 'rolling_back', undo = x.undo + 1, executed_for = the_task, worker_id = the_worker, lease_token = token, evidence = coalesce(seen, x.evidence),
         deadline_at = now() + within_ms * interval '1 millisecond', gave_up_at = NULL, ended_at = NULL, why = because
   WHERE x.id = a.id;
  RETURN NULL;
END
$$;

-- Before an execution: its precondition does not hold any more (A4), or it is certain that nothing was done.
CREATE FUNCTION madrugada.abort_action(the_action bigint, the_task bigint, the_worker bigint, token bigint, because text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
BEGIN
  PERFORM FROM action a WHERE a.id = the_action FOR UPDATE;
  IF NOT holds_lease(the_task, the_worker, token) THEN
    RETURN false;
  END IF;
  UPDATE action a SET state = 'aborted', why = because, ended_at = now() WHERE a.id = the_action AND a.state = 'approved';
  RETURN FOUND;
END
$$;

-- A person has looked at the target and says how it stands.
CREATE FUNCTION madrugada.settle_action(the_action bigint, to_state action_state) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  a action%ROWTYPE;
BEGIN
  PERFORM require_person(format('settling action %s', the_action));
  IF NOT pg_has_role(calling_role(), 'madrugada_approver', 'USAGE') THEN
    RAISE EXCEPTION 'role % may not settle actions: that takes madrugada_approver', calling_role() USING ERRCODE = 'insufficient_privilege';
  END IF;
  SELECT * INTO a FROM action WHERE id = the_action FOR UPDATE;
  IF NOT FOUND THEN
    RETURN format('there is no action %s', the_action);
  END IF;
  IF a.state NOT IN ('unknown', 'needs_person') THEN
    RETURN format('action %s is %s: only what is unknown or needs a person is settled by one', a.id, replace(a.state::text, '_', ' '));
  END IF;
  UPDATE action x
     SET state = to_state, why = format('settled by %s: %s', said('by'), said('reason')), ended_at = now(),
         committed_no = CASE WHEN to_state = 'committed' THEN coalesce(x.committed_no, nextval('journal_no')) ELSE x.committed_no END,
         evidence = coalesce(x.evidence, jsonb_build_object('settled_by', said('by')))
   WHERE x.id = a.id;
  UPDATE alert x SET acknowledged_at = now(), acknowledged_by = said('by'), ack_note = 'settled: ' || said('reason')
   WHERE x.action_id = a.id AND x.acknowledged_at IS NULL;
  RETURN NULL;
END
$$;

-- Once a second, from one worker of all, and before people look: what has expired, and whom to remind. A reminder when half of the time is over,
-- an escalation when four fifths are.
CREATE FUNCTION madrugada.tend_actions() RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp SET enable_seqscan = off
  AS $$
DECLARE
  a action%ROWTYPE;
BEGIN
  IF NOT EXISTS (SELECT FROM action x WHERE x.state IN ('proposed', 'approved') AND x.expires_at > '-infinity')
     OR NOT pg_try_advisory_xact_lock(slot_lock_class() + 1, 2) THEN
    RETURN;
  END IF;
  FOR a IN SELECT * FROM action x WHERE x.state IN ('proposed', 'approved') AND x.expires_at <= now() ORDER BY x.id FOR UPDATE SKIP LOCKED LOOP
    UPDATE action x
       SET state = 'expired', ended_at = now(),
           why = CASE a.state WHEN 'proposed' THEN format('nobody decided until %s', x.expires_at) ELSE format('approved, but not executed until %s', x.expires_at) END
     WHERE x.id = a.id;
  END LOOP;
  FOR a IN
    SELECT * FROM action x
     WHERE x.state = 'proposed' AND x.reminded < 2 AND now() >= x.proposed_at + (x.expires_at - x.proposed_at) * CASE x.reminded WHEN 0 THEN 0.5 ELSE 0.8 END
     ORDER BY x.id FOR UPDATE SKIP LOCKED
  LOOP
    UPDATE action x SET reminded = x.reminded + 1 WHERE x.id = a.id;
    PERFORM raise_action_alert(a, CASE a.reminded WHEN 0 THEN 'approval reminder' ELSE 'approval escalation' END,
      format('action %s (%s) of task %s:%s still waits for approval and expires at %s: %s', a.id, a.name, a.batch_id, a.item, a.expires_at, a.intent));
  END LOOP;
END
$$;

-- A person's retry begins anew: what ended without effect is proposed again, and what was to be undone has been.
CREATE FUNCTION madrugada.reopen_actions() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  UPDATE action_use u SET retired_at = now() FROM action a
   WHERE u.task_id = NEW.id AND u.retired_at IS NULL AND a.id = u.action_id AND is_without_effect(a.state);
  UPDATE task t SET undoing = NULL WHERE t.id = NEW.id AND t.undoing IS NOT NULL;
  RETURN NULL;
END
$$;
CREATE TRIGGER task_retry_actions AFTER UPDATE ON madrugada.task
  FOR EACH ROW WHEN (OLD.state = 'failed' AND NEW.state = 'pending') EXECUTE FUNCTION madrugada.reopen_actions();

-- Before pending tasks are given up: what they have proposed is not to be decided on any more. What they have done cannot just be left: then
-- nothing changes, and what stands in the way is returned. What another version's task has proposed, too, is left to it. Actions are locked before
-- tasks, as by a decision.
CREATE FUNCTION madrugada.withdraw_actions(the_batch text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  standing text;
BEGIN
  PERFORM FROM action a
    WHERE a.batch_key = the_batch OR a.executed_for IN (SELECT t.id FROM task t WHERE t.batch_key = the_batch AND t.state = 'pending')
    ORDER BY a.id FOR UPDATE;
  SELECT string_agg(a.id::text, ', ' ORDER BY a.id) INTO standing
    FROM action a JOIN task t ON t.id = a.executed_for
   WHERE t.batch_key = the_batch AND t.state = 'pending' AND a.state IN ('in_flight', 'committed', 'rolling_back', 'unknown', 'needs_person');
  IF standing IS NOT NULL THEN
    RETURN format('action %s of tasks that are not finished may be in effect; resume the batch, so that they are finished or undone, or settle what needs a person',
      standing);
  END IF;
  UPDATE action a SET state = 'rejected', decided_at = now(), ended_at = now(), why = 'its task was given up'
    FROM task t WHERE a.batch_key = the_batch AND t.id = a.task_id AND t.state = 'pending' AND a.state IN ('proposed', 'approved')
     AND another_relies_on(a.id, t.id) IS NULL;
  RETURN NULL;
END
$$;

-- A worker's death frees what its executions kept waiting, as it does for dispatches.
CREATE FUNCTION madrugada.wake_for_dead_executor() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  PERFORM wake_action_tasks(a.id) FROM action a WHERE a.worker_id = NEW.id AND a.state IN ('in_flight', 'rolling_back') ORDER BY a.id;
  RETURN NULL;
END
$$;
CREATE INDEX action_executor ON madrugada.action (worker_id) WHERE state IN ('in_flight', 'rolling_back');
CREATE CONSTRAINT TRIGGER worker_end_actions AFTER UPDATE ON madrugada.worker DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION madrugada.wake_for_dead_executor();

CREATE FUNCTION madrugada.record_rehearsal(the_agent_sha256 text, the_agent text, the_verdict text, the_report jsonb) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  the_id bigint;
BEGIN
  IF said('by') IS NULL THEN
    RAISE EXCEPTION 'a rehearsal is put on record by a person, with a name';
  END IF;
  INSERT INTO rehearsal (agent_sha256, agent, verdict, report, by_name) VALUES (the_agent_sha256, the_agent, the_verdict, the_report, said('by')) RETURNING id INTO the_id;
  PERFORM record_event('rehearsal', the_verdict, NULL, NULL, NULL, NULL, NULL, NULL, NULL, format('%s, code %s', the_agent, left(the_agent_sha256, 12)));
  RETURN the_id;
END
$$;

-- Somebody answers for it, with a name.
CREATE FUNCTION madrugada.allow_unrehearsed(the_batch text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF said('by') IS NULL THEN
    RAISE EXCEPTION 'letting actions be proposed without a rehearsal takes a person, with a name';
  END IF;
  UPDATE batch b SET unrehearsed = true WHERE b.batch_key = the_batch AND NOT b.unrehearsed;
  PERFORM record_event('batch', 'unrehearsed actions allowed', the_batch, NULL, NULL, NULL, NULL, NULL, NULL, said('reason'));
END
$$;

-- Every passage of every action, refused decisions included, with who it was by (db/audit/10-actions.sql); by audit_event_action or
-- audit_event_batch.
CREATE VIEW madrugada.audit_action_passages AS
SELECT e.batch_key, a.batch_id || ':' || a.item || substr(a.batch_key, length(a.batch_id) + 1) AS key, e.action_id, a.name, e.id AS event_id,
       e.at, e.event, e.from_state, e.to_state,
       CASE WHEN e.by_name IS NOT NULL THEN e.by_name
            WHEN e.event = 'proposed' THEN a.proposed_by
            WHEN e.event = 'expired' OR e.worker_id IS NULL THEN 'madrugada'
            ELSE concat_ws(' in slot ', 'worker ' || e.worker_id, (
              SELECT p.slot FROM attempt p WHERE p.task_id = e.task_id AND p.number = e.lease_token AND p.worker_id = e.worker_id)) END AS actor,
       e.reason, e.session_user_name, e.os_user, e.client_addr
  FROM audit_event e JOIN action a ON a.id = e.action_id
 WHERE e.action_id IS NOT NULL;

GRANT SELECT ON madrugada.audit_action_passages TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT SELECT ON madrugada.action, madrugada.action_use, madrugada.action_decision, madrugada.rehearsal
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.sha256_hex(text), madrugada.action_content(text, text, text, jsonb), madrugada.action_digest(madrugada.action),
  madrugada.action_challenge(madrugada.action), madrugada.is_without_effect(madrugada.action_state), madrugada.calling_role(),
  madrugada.executor_at_work(madrugada.action), madrugada.executor_gone_at(madrugada.action), madrugada.is_rehearsed(text)
  TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
-- Anybody may try to decide: only an approver's decision counts, and the others' tries are on record.
GRANT EXECUTE ON FUNCTION madrugada.decide_action(bigint, text, text, text, text[]), madrugada.settle_action(bigint, madrugada.action_state)
  TO madrugada_worker, madrugada_operator, madrugada_approver;
GRANT EXECUTE ON FUNCTION madrugada.tend_actions() TO madrugada_worker, madrugada_operator, madrugada_approver;
GRANT EXECUTE ON FUNCTION madrugada.propose_action(bigint, bigint, bigint, integer, jsonb),
  madrugada.begin_execution(bigint, bigint, bigint, bigint, integer, jsonb, bigint), madrugada.record_effect(bigint, bigint, integer, jsonb),
  madrugada.give_up_execution(bigint, bigint),
  madrugada.conclude_action(bigint, bigint, bigint, bigint, integer, integer, madrugada.action_state, jsonb, boolean, text),
  madrugada.begin_undo(bigint, bigint, bigint, bigint, integer, integer, jsonb, bigint, text), madrugada.abort_action(bigint, bigint, bigint, bigint, text)
  TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.record_rehearsal(text, text, text, jsonb), madrugada.allow_unrehearsed(text) TO madrugada_operator;
