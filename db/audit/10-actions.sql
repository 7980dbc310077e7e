-- Proves how each action came about: every passage from its proposal to its end with time, who it was by and why, decisions that were
-- refused included. actor: the name a person gave, the agent that proposed it, or the worker that executed it; session_user_name, os_user and
-- client_addr are what the database knows of who that was.
--   psql "$(madrugada db url)" -v batch=2026-11 -f db/audit/10-actions.sql
--   psql "$(madrugada db url)" -v action=12 -f db/audit/10-actions.sql
\set action :action
\set batch :batch
SELECT action_id, key, name, at, event, from_state, to_state, actor, reason, session_user_name, os_user, client_addr
  FROM madrugada.audit_action_passages
 WHERE CASE WHEN :'action' ~ '^[0-9]+$' THEN action_id = (:'action'::text)::bigint
            ELSE batch_key = (SELECT madrugada.batch_named(:'batch')) END
 ORDER BY action_id, event_id;
