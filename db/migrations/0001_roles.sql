-- Roles, the schema's owner, and the clock. Roles belong to the whole server, so another database may have made them.

DO $$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['madrugada_owner', 'madrugada_worker', 'madrugada_operator', 'madrugada_approver', 'madrugada_auditor'] LOOP
    IF to_regrole(role) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL; -- another database's migration was quicker
      END;
    END IF;
    IF NOT pg_has_role(current_user, role, 'MEMBER') THEN
      EXECUTE format('GRANT %I TO %I', role, current_user);
    END IF;
  END LOOP;
END
$$;

CREATE SCHEMA IF NOT EXISTS madrugada;
ALTER SCHEMA madrugada OWNER TO madrugada_owner;
ALTER TABLE IF EXISTS madrugada.schema_migration OWNER TO madrugada_owner; -- the list of migrations
GRANT USAGE ON SCHEMA madrugada TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

-- What migrations create is open to nobody until it is granted (0007_grants.sql).
ALTER DEFAULT PRIVILEGES IN SCHEMA madrugada REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

-- The clock of leases and deadlines. STABLE, so that it can serve an index condition; tests replace it to move time.
CREATE FUNCTION madrugada.now() RETURNS timestamptz
  LANGUAGE sql STABLE PARALLEL SAFE
  AS 'SELECT pg_catalog.statement_timestamp()';
