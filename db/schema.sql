-- The schema of Madrugada after all migrations, as PostgreSQL 18 prints it. Written by: npm run schema:dump

-- Roles

CREATE ROLE madrugada_approver NOLOGIN NOSUPERUSER NOCREATEROLE NOBYPASSRLS;
CREATE ROLE madrugada_auditor NOLOGIN NOSUPERUSER NOCREATEROLE NOBYPASSRLS;
CREATE ROLE madrugada_operator NOLOGIN NOSUPERUSER NOCREATEROLE NOBYPASSRLS;
CREATE ROLE madrugada_owner NOLOGIN NOSUPERUSER NOCREATEROLE NOBYPASSRLS;
CREATE ROLE madrugada_worker NOLOGIN NOSUPERUSER NOCREATEROLE NOBYPASSRLS;

-- Types

CREATE TYPE madrugada.action_approval AS ENUM ('none', 'person', 'two-people', 'challenge');
CREATE TYPE madrugada.action_state AS ENUM ('proposed', 'approved', 'rejected', 'expired', 'in_flight', 'committed', 'aborted', 'rolling_back', 'rolled_back', 'unknown', 'needs_person');
CREATE TYPE madrugada.attempt_ending AS ENUM ('completed', 'failed', 'lost', 'released', 'parked', 'stopped');
CREATE TYPE madrugada.batch_state AS ENUM ('open', 'stopped', 'closed', 'archived');
CREATE TYPE madrugada.doubt_policy AS ENUM ('pay_again', 'hold');
CREATE TYPE madrugada.outcome_kind AS ENUM ('charged', 'refused', 'not_sent', 'unknown', 'recovered');
CREATE TYPE madrugada.settlement_verdict AS ENUM ('charged', 'not_charged');
CREATE TYPE madrugada.step_kind AS ENUM ('step', 'now', 'random', 'sleep', 'timeout', 'abort', 'checkpoint', 'action');
CREATE TYPE madrugada.task_state AS ENUM ('pending', 'running', 'completed', 'failed');

-- Sequences

CREATE SEQUENCE madrugada.journal_no AS bigint INCREMENT 1 START 1;

-- Tables

CREATE TABLE madrugada.action (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  batch_id text NOT NULL,
  item text NOT NULL,
  name text NOT NULL,
  arguments jsonb NOT NULL,
  content_sha256 text NOT NULL,
  generation integer NOT NULL,
  key text NOT NULL,
  batch_key text NOT NULL,
  task_id bigint NOT NULL,
  attempt bigint NOT NULL,
  slot text NOT NULL,
  agent text NOT NULL,
  agent_sha256 text NOT NULL,
  lineage integer[] NOT NULL,
  proposed_by text NOT NULL,
  proposed_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  kind text NOT NULL,
  intent text NOT NULL,
  permissions text[] NOT NULL,
  blast_radius text NOT NULL,
  rollback_kind text NOT NULL,
  rollback_plan text NOT NULL,
  present jsonb,
  approval madrugada.action_approval NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  on_expiry text NOT NULL,
  digest text NOT NULL,
  reminded integer DEFAULT 0 NOT NULL,
  state madrugada.action_state DEFAULT 'proposed'::madrugada.action_state NOT NULL,
  why text,
  executed_for bigint,
  execution integer DEFAULT 0 NOT NULL,
  undo integer DEFAULT 0 NOT NULL,
  worker_id bigint,
  lease_token bigint,
  deadline_at timestamp with time zone,
  gave_up_at timestamp with time zone,
  before jsonb,
  effect jsonb,
  evidence jsonb,
  evidence_is_weak boolean DEFAULT false NOT NULL,
  committed_no bigint,
  decided_at timestamp with time zone,
  ended_at timestamp with time zone,
  CONSTRAINT action_blast_radius_check CHECK ((blast_radius <> ''::text)),
  CONSTRAINT action_check CHECK (((rollback_kind <> 'none'::text) OR (approval = 'challenge'::madrugada.action_approval))),
  CONSTRAINT action_check1 CHECK ((expires_at > proposed_at)),
  CONSTRAINT action_check2 CHECK (((state = ANY (ARRAY['in_flight'::madrugada.action_state, 'rolling_back'::madrugada.action_state])) <= ((worker_id IS NOT NULL) AND (deadline_at IS NOT NULL) AND (executed_for IS NOT NULL)))),
  CONSTRAINT action_check3 CHECK (((state = 'committed'::madrugada.action_state) <= ((committed_no IS NOT NULL) AND (evidence IS NOT NULL)))),
  CONSTRAINT action_content_sha256_generation_key UNIQUE (content_sha256, generation),
  CONSTRAINT action_generation_check CHECK ((generation > 0)),
  CONSTRAINT action_intent_check CHECK ((intent <> ''::text)),
  CONSTRAINT action_key_key UNIQUE (key),
  CONSTRAINT action_kind_check CHECK ((kind <> ''::text)),
  CONSTRAINT action_name_check CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text)),
  CONSTRAINT action_on_expiry_check CHECK ((on_expiry = ANY (ARRAY['reject'::text, 'fail'::text]))),
  CONSTRAINT action_permissions_check CHECK ((cardinality(permissions) > 0)),
  CONSTRAINT action_pkey PRIMARY KEY (id),
  CONSTRAINT action_rollback_kind_check CHECK ((rollback_kind = ANY (ARRAY['in-band'::text, 'compensating'::text, 'out-of-band'::text, 'none'::text]))),
  CONSTRAINT action_rollback_plan_check CHECK ((rollback_plan <> ''::text))
);

CREATE TABLE madrugada.action_decision (
  action_id bigint NOT NULL,
  by_name text NOT NULL,
  person text GENERATED ALWAYS AS (lower(btrim(by_name))) STORED NOT NULL,
  verdict text NOT NULL,
  digest text NOT NULL,
  checklist text[] NOT NULL,
  reason text,
  decided_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  session_user_name text DEFAULT SESSION_USER NOT NULL,
  os_user text,
  client_addr inet DEFAULT inet_client_addr(),
  CONSTRAINT action_decision_action_id_fkey FOREIGN KEY (action_id) REFERENCES madrugada.action(id),
  CONSTRAINT action_decision_pkey PRIMARY KEY (action_id, person, verdict),
  CONSTRAINT action_decision_verdict_check CHECK ((verdict = ANY (ARRAY['approve'::text, 'reject'::text])))
);

CREATE TABLE madrugada.action_use (
  task_id bigint NOT NULL,
  content_sha256 text NOT NULL,
  ordinal integer NOT NULL,
  step text NOT NULL,
  action_id bigint NOT NULL,
  used_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  retired_at timestamp with time zone,
  CONSTRAINT action_use_ordinal_check CHECK ((ordinal > 0))
);

CREATE TABLE madrugada.alert (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  raised_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  kind text NOT NULL,
  batch_key text,
  task_id bigint,
  message text NOT NULL,
  acknowledged_at timestamp with time zone,
  acknowledged_by text,
  ack_note text,
  action_id bigint,
  CONSTRAINT alert_check CHECK (((acknowledged_at IS NULL) = (acknowledged_by IS NULL))),
  CONSTRAINT alert_pkey PRIMARY KEY (id)
);

CREATE TABLE madrugada.alert_delivery (
  alert_id bigint NOT NULL,
  channel text NOT NULL,
  tries integer DEFAULT 0 NOT NULL,
  next_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  delivered_at timestamp with time zone,
  last_error text,
  CONSTRAINT alert_delivery_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES madrugada.alert(id) ON DELETE CASCADE,
  CONSTRAINT alert_delivery_channel_check CHECK (((channel = ANY (ARRAY['webhook'::text, 'command'::text])) OR (channel ~~ 'mail:%'::text))),
  CONSTRAINT alert_delivery_pkey PRIMARY KEY (alert_id, channel)
);

CREATE TABLE madrugada.attempt (
  task_id bigint NOT NULL,
  number bigint NOT NULL,
  slot text NOT NULL,
  worker_id bigint NOT NULL,
  lease_token bigint NOT NULL,
  agent_sha256 text NOT NULL,
  started_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  ended_at timestamp with time zone,
  ending madrugada.attempt_ending,
  replayed integer,
  error text,
  allowance_usd numeric,
  held_usd numeric DEFAULT 0 NOT NULL,
  CONSTRAINT attempt_allowance_usd_check CHECK ((allowance_usd >= (0)::numeric)),
  CONSTRAINT attempt_check CHECK (((ended_at IS NULL) = (ending IS NULL))),
  CONSTRAINT attempt_held_usd_check CHECK ((held_usd >= (0)::numeric)),
  CONSTRAINT attempt_pkey PRIMARY KEY (task_id, number),
  CONSTRAINT attempt_task_id_fkey FOREIGN KEY (task_id) REFERENCES madrugada.task(id) ON DELETE CASCADE,
  CONSTRAINT attempt_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES madrugada.worker(id)
);

CREATE TABLE madrugada.audit_event (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  subject text NOT NULL,
  event text NOT NULL,
  batch_key text,
  task_id bigint,
  from_state text,
  to_state text,
  slot text,
  worker_id bigint,
  lease_token bigint,
  reason text,
  by_name text,
  session_user_name text DEFAULT SESSION_USER NOT NULL,
  os_user text,
  client_addr inet DEFAULT inet_client_addr(),
  action_id bigint,
  CONSTRAINT audit_event_pkey PRIMARY KEY (id),
  CONSTRAINT audit_event_subject_check CHECK ((subject = ANY (ARRAY['batch'::text, 'task'::text, 'worker'::text, 'stop'::text, 'bill'::text, 'price'::text, 'alert'::text, 'doubt'::text, 'budget'::text, 'action'::text, 'rehearsal'::text])))
);

CREATE TABLE madrugada.batch (
  number integer GENERATED ALWAYS AS IDENTITY NOT NULL,
  id text NOT NULL,
  version text NOT NULL,
  batch_key text GENERATED ALWAYS AS (((id || ':'::text) || version)) STORED,
  agent text NOT NULL,
  agent_options jsonb DEFAULT '{}'::jsonb NOT NULL,
  state madrugada.batch_state DEFAULT 'open'::madrugada.batch_state NOT NULL,
  stop_reason text,
  tasks_sha256 text NOT NULL,
  task_count integer NOT NULL,
  budget_usd numeric,
  max_attempts integer DEFAULT 3 NOT NULL,
  max_losses integer DEFAULT 20 NOT NULL,
  lease_seconds integer DEFAULT 600 NOT NULL,
  doubt_policy madrugada.doubt_policy DEFAULT 'pay_again'::madrugada.doubt_policy NOT NULL,
  loaded_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
  created_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  closed_at timestamp with time zone,
  archived_at timestamp with time zone,
  stop_after_failures integer DEFAULT 10 NOT NULL,
  cut_off_at timestamp with time zone,
  task_budget_usd numeric,
  velocity_usd numeric,
  max_output_tokens integer,
  fall_back_model text,
  fall_back_after integer,
  unrehearsed boolean DEFAULT false NOT NULL,
  CONSTRAINT batch_batch_key_key UNIQUE (batch_key),
  CONSTRAINT batch_budget_usd_check CHECK ((budget_usd > (0)::numeric)),
  CONSTRAINT batch_check CHECK (((state = 'stopped'::madrugada.batch_state) = (stop_reason IS NOT NULL))),
  CONSTRAINT batch_check1 CHECK (((state <> ALL (ARRAY['closed'::madrugada.batch_state, 'archived'::madrugada.batch_state])) OR (closed_at IS NOT NULL))),
  CONSTRAINT batch_check2 CHECK (((cut_off_at IS NULL) OR (state <> 'open'::madrugada.batch_state))),
  CONSTRAINT batch_check3 CHECK (((fall_back_model IS NULL) = (fall_back_after IS NULL))),
  CONSTRAINT batch_fall_back_after_check CHECK ((fall_back_after > 0)),
  CONSTRAINT batch_fall_back_model_check CHECK ((fall_back_model <> ''::text)),
  CONSTRAINT batch_id_check CHECK ((id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text)),
  CONSTRAINT batch_lease_seconds_check CHECK ((lease_seconds > 0)),
  CONSTRAINT batch_max_attempts_check CHECK ((max_attempts > 0)),
  CONSTRAINT batch_max_losses_check CHECK ((max_losses > 0)),
  CONSTRAINT batch_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  CONSTRAINT batch_number_key UNIQUE (number),
  CONSTRAINT batch_pkey PRIMARY KEY (id, version),
  CONSTRAINT batch_stop_after_failures_check CHECK ((stop_after_failures > 0)),
  CONSTRAINT batch_task_budget_usd_check CHECK ((task_budget_usd > (0)::numeric)),
  CONSTRAINT batch_task_count_check CHECK ((task_count > 0)),
  CONSTRAINT batch_velocity_usd_check CHECK ((velocity_usd > (0)::numeric)),
  CONSTRAINT batch_version_check CHECK ((version ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'::text))
);

CREATE TABLE madrugada.batch_spending (
  batch_key text NOT NULL,
  drawn_usd numeric DEFAULT 0 NOT NULL,
  usual_usd numeric DEFAULT 0 NOT NULL,
  CONSTRAINT batch_spending_batch_key_fkey FOREIGN KEY (batch_key) REFERENCES madrugada.batch(batch_key) ON DELETE CASCADE,
  CONSTRAINT batch_spending_drawn_usd_check CHECK ((drawn_usd >= (0)::numeric)),
  CONSTRAINT batch_spending_pkey PRIMARY KEY (batch_key),
  CONSTRAINT batch_spending_usual_usd_check CHECK ((usual_usd >= (0)::numeric))
) WITH (fillfactor=50);

CREATE TABLE madrugada.bill (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  batch_key text NOT NULL,
  source text NOT NULL,
  format text NOT NULL,
  sha256 text NOT NULL,
  byte_count bigint NOT NULL,
  line_count integer NOT NULL,
  continues bigint,
  imported_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT bill_batch_key_sha256_key UNIQUE (batch_key, sha256),
  CONSTRAINT bill_continues_fkey FOREIGN KEY (continues) REFERENCES madrugada.bill(id),
  CONSTRAINT bill_pkey PRIMARY KEY (id)
);

CREATE TABLE madrugada.bill_line (
  bill_id bigint NOT NULL,
  line_no integer NOT NULL,
  provider_request_id text,
  message_id text,
  tag text,
  at timestamp with time zone,
  model text,
  input_tokens bigint,
  output_tokens bigint,
  cost_usd numeric NOT NULL,
  raw text NOT NULL,
  CONSTRAINT bill_line_bill_id_fkey FOREIGN KEY (bill_id) REFERENCES madrugada.bill(id) ON DELETE CASCADE,
  CONSTRAINT bill_line_pkey PRIMARY KEY (bill_id, line_no)
);

CREATE TABLE madrugada.call_intent (
  batch_key text NOT NULL,
  task_id bigint NOT NULL,
  seq integer NOT NULL,
  dispatch integer NOT NULL,
  scope text NOT NULL,
  request_sha256 bytea NOT NULL,
  occurrence integer NOT NULL,
  attempt bigint NOT NULL,
  worker_id bigint NOT NULL,
  slot text NOT NULL,
  lease_token bigint NOT NULL,
  after_no bigint NOT NULL,
  method text NOT NULL,
  path text NOT NULL,
  model text,
  request bytea NOT NULL,
  worst_case_usd numeric,
  tag text NOT NULL,
  sent_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  deadline_at timestamp with time zone NOT NULL,
  asked_model text,
  CONSTRAINT call_intent_dispatch_check CHECK ((dispatch > 0)),
  CONSTRAINT call_intent_occurrence_check CHECK ((occurrence > 0)),
  CONSTRAINT call_intent_pkey PRIMARY KEY (batch_key, task_id, seq, dispatch),
  CONSTRAINT call_intent_request_sha256_check CHECK ((octet_length(request_sha256) = 32)),
  CONSTRAINT call_intent_seq_check CHECK ((seq > 0))
) PARTITION BY LIST (batch_key);

CREATE TABLE madrugada.call_outcome (
  batch_key text NOT NULL,
  task_id bigint NOT NULL,
  seq integer NOT NULL,
  dispatch integer NOT NULL,
  kind madrugada.outcome_kind NOT NULL,
  status integer,
  error text,
  shown boolean DEFAULT false NOT NULL,
  provider_request_id text,
  message_id text,
  response_headers jsonb,
  response bytea,
  input_tokens bigint,
  output_tokens bigint,
  cache_read_tokens bigint,
  cache_write_5m_tokens bigint,
  cache_write_1h_tokens bigint,
  cost_usd numeric,
  answers boolean NOT NULL,
  completed_no bigint DEFAULT nextval('madrugada.journal_no'::regclass) NOT NULL,
  received_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT call_outcome_check CHECK (((NOT answers) OR (kind = ANY (ARRAY['charged'::madrugada.outcome_kind, 'recovered'::madrugada.outcome_kind])))),
  CONSTRAINT call_outcome_check1 CHECK (((NOT shown) OR (kind = ANY (ARRAY['refused'::madrugada.outcome_kind, 'not_sent'::madrugada.outcome_kind, 'unknown'::madrugada.outcome_kind])))),
  CONSTRAINT call_outcome_cost_usd_check CHECK ((cost_usd >= (0)::numeric)),
  CONSTRAINT call_outcome_pkey PRIMARY KEY (batch_key, task_id, seq, dispatch, kind)
) PARTITION BY LIST (batch_key);

CREATE TABLE madrugada.failure_streak (
  batch_key text NOT NULL,
  failures integer NOT NULL,
  CONSTRAINT failure_streak_batch_key_fkey FOREIGN KEY (batch_key) REFERENCES madrugada.batch(batch_key) ON DELETE CASCADE,
  CONSTRAINT failure_streak_failures_check CHECK ((failures >= 0)),
  CONSTRAINT failure_streak_pkey PRIMARY KEY (batch_key)
) WITH (fillfactor=50);

CREATE TABLE madrugada.incoming_task (
  loading xid8 DEFAULT pg_current_xact_id() NOT NULL,
  "position" integer NOT NULL,
  item text NOT NULL,
  input jsonb NOT NULL
);

CREATE TABLE madrugada.model_price (
  model text NOT NULL,
  valid_from date NOT NULL,
  input_usd_per_mtok numeric NOT NULL,
  output_usd_per_mtok numeric NOT NULL,
  cache_read_usd_per_mtok numeric NOT NULL,
  cache_write_5m_usd_per_mtok numeric NOT NULL,
  cache_write_1h_usd_per_mtok numeric NOT NULL,
  above_input_tokens integer DEFAULT 0 NOT NULL,
  factors jsonb DEFAULT '{}'::jsonb NOT NULL,
  context_tokens integer,
  max_output_tokens integer,
  server_tool_usd_per_1000 jsonb DEFAULT '{}'::jsonb NOT NULL,
  source text DEFAULT 'by hand'::text NOT NULL,
  published_at text,
  built_in boolean GENERATED ALWAYS AS ((source = 'built in'::text)) STORED NOT NULL,
  CONSTRAINT model_price_above_input_tokens_check CHECK ((above_input_tokens >= 0)),
  CONSTRAINT model_price_cache_read_usd_per_mtok_check CHECK ((cache_read_usd_per_mtok >= (0)::numeric)),
  CONSTRAINT model_price_cache_write_1h_usd_per_mtok_check CHECK ((cache_write_1h_usd_per_mtok >= (0)::numeric)),
  CONSTRAINT model_price_cache_write_5m_usd_per_mtok_check CHECK ((cache_write_5m_usd_per_mtok >= (0)::numeric)),
  CONSTRAINT model_price_context_tokens_check CHECK ((context_tokens > 0)),
  CONSTRAINT model_price_factors_check CHECK ((jsonb_typeof(factors) = 'object'::text)),
  CONSTRAINT model_price_factors_check1 CHECK ((NOT jsonb_path_exists(factors, '$.*?(@.type() != "string" || !(@ like_regex "^[0-9]+([.][0-9]+)?$"))'::jsonpath))),
  CONSTRAINT model_price_input_usd_per_mtok_check CHECK ((input_usd_per_mtok >= (0)::numeric)),
  CONSTRAINT model_price_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  CONSTRAINT model_price_output_usd_per_mtok_check CHECK ((output_usd_per_mtok >= (0)::numeric)),
  CONSTRAINT model_price_pkey PRIMARY KEY (model, valid_from, above_input_tokens, built_in),
  CONSTRAINT model_price_server_tool_usd_per_1000_check CHECK ((jsonb_typeof(server_tool_usd_per_1000) = 'object'::text)),
  CONSTRAINT model_price_server_tool_usd_per_1000_check1 CHECK ((NOT jsonb_path_exists(server_tool_usd_per_1000, '$.*?(@.type() != "string" || !(@ like_regex "^[0-9]+([.][0-9]+)?$"))'::jsonpath))),
  CONSTRAINT model_price_source_check CHECK ((source <> ''::text))
);

CREATE TABLE madrugada.month_spending (
  month date NOT NULL,
  cap_usd numeric,
  drawn_usd numeric DEFAULT 0 NOT NULL,
  CONSTRAINT month_spending_cap_usd_check CHECK ((cap_usd > (0)::numeric)),
  CONSTRAINT month_spending_drawn_usd_check CHECK ((drawn_usd >= (0)::numeric)),
  CONSTRAINT month_spending_month_check CHECK ((date_trunc('month'::text, (month)::timestamp with time zone) = month)),
  CONSTRAINT month_spending_pkey PRIMARY KEY (month)
) WITH (fillfactor=50);

CREATE TABLE madrugada.pay_again (
  task_id bigint NOT NULL,
  from_seq integer NOT NULL,
  to_seq integer NOT NULL,
  from_no bigint NOT NULL,
  to_no bigint NOT NULL,
  ordered_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT pay_again_from_seq_check CHECK ((from_seq > 0)),
  CONSTRAINT pay_again_pkey PRIMARY KEY (task_id, ordered_at),
  CONSTRAINT pay_again_task_id_fkey FOREIGN KEY (task_id) REFERENCES madrugada.task(id) ON DELETE CASCADE
);

CREATE TABLE madrugada.provider_pace (
  origin text NOT NULL,
  model text NOT NULL,
  paused_until timestamp with time zone NOT NULL,
  requests_per_minute double precision,
  next_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  input_per_minute bigint,
  input_full_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  output_per_minute bigint,
  output_full_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  tokens_per_minute bigint,
  tokens_full_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  refused_at timestamp with time zone NOT NULL,
  CONSTRAINT provider_pace_input_per_minute_check CHECK ((input_per_minute > 0)),
  CONSTRAINT provider_pace_output_per_minute_check CHECK ((output_per_minute > 0)),
  CONSTRAINT provider_pace_pkey PRIMARY KEY (origin, model),
  CONSTRAINT provider_pace_requests_per_minute_check CHECK ((requests_per_minute > (0)::double precision)),
  CONSTRAINT provider_pace_tokens_per_minute_check CHECK ((tokens_per_minute > 0))
) WITH (fillfactor=50);

CREATE TABLE madrugada.rehearsal (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  agent_sha256 text NOT NULL,
  agent text NOT NULL,
  verdict text NOT NULL,
  report jsonb NOT NULL,
  rehearsed_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  by_name text NOT NULL,
  CONSTRAINT rehearsal_pkey PRIMARY KEY (id),
  CONSTRAINT rehearsal_verdict_check CHECK ((verdict = ANY (ARRAY['production'::text, 'staging'::text, 'research-only'::text])))
);

CREATE TABLE madrugada.schema_migration (
  name text NOT NULL,
  sha256 text NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL,
  CONSTRAINT schema_migration_pkey PRIMARY KEY (name)
);

CREATE TABLE madrugada.server_identity (
  system_identifier bigint NOT NULL,
  timeline_id integer NOT NULL,
  seen_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT server_identity_pkey PRIMARY KEY (system_identifier, timeline_id)
);

CREATE TABLE madrugada.settlement (
  batch_key text NOT NULL,
  task_id bigint NOT NULL,
  seq integer NOT NULL,
  dispatch integer NOT NULL,
  verdict madrugada.settlement_verdict NOT NULL,
  cost_usd numeric,
  pay_again boolean DEFAULT false NOT NULL,
  bill_id bigint,
  reason text NOT NULL,
  settled_by text NOT NULL,
  settled_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT settlement_check CHECK (((verdict = 'charged'::madrugada.settlement_verdict) = (cost_usd IS NOT NULL))),
  CONSTRAINT settlement_check1 CHECK (((verdict = 'charged'::madrugada.settlement_verdict) OR (NOT pay_again))),
  CONSTRAINT settlement_cost_usd_check CHECK ((cost_usd >= (0)::numeric)),
  CONSTRAINT settlement_pkey PRIMARY KEY (batch_key, task_id, seq, dispatch)
);

CREATE TABLE madrugada.spending_minute (
  batch_key text NOT NULL,
  minute timestamp with time zone NOT NULL,
  worker_id bigint NOT NULL,
  settled_usd numeric NOT NULL,
  held_usd numeric NOT NULL,
  CONSTRAINT spending_minute_pkey PRIMARY KEY (batch_key, minute, worker_id)
) WITH (fillfactor=50);

CREATE TABLE madrugada.step_record (
  batch_key text NOT NULL,
  task_id bigint NOT NULL,
  scope text NOT NULL,
  kind madrugada.step_kind NOT NULL,
  name text NOT NULL,
  occurrence integer NOT NULL,
  attempt bigint NOT NULL,
  worker_id bigint NOT NULL,
  lease_token bigint NOT NULL,
  value bytea NOT NULL,
  completed_no bigint DEFAULT nextval('madrugada.journal_no'::regclass) NOT NULL,
  recorded_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  CONSTRAINT step_record_occurrence_check CHECK ((occurrence > 0)),
  CONSTRAINT step_record_pkey PRIMARY KEY (batch_key, task_id, scope, kind, name, occurrence, attempt)
) PARTITION BY LIST (batch_key);

CREATE TABLE madrugada.stop_switch (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  stopped_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  reason text NOT NULL,
  lifted_at timestamp with time zone,
  cut_off_at timestamp with time zone,
  CONSTRAINT stop_switch_pkey PRIMARY KEY (id)
);

CREATE TABLE madrugada.task (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  batch_id text NOT NULL,
  item text NOT NULL,
  version text NOT NULL,
  batch_key text GENERATED ALWAYS AS (((batch_id || ':'::text) || version)) STORED NOT NULL,
  key text GENERATED ALWAYS AS (((((batch_id || ':'::text) || item) || ':'::text) || version)) STORED NOT NULL,
  "position" integer NOT NULL,
  input jsonb NOT NULL,
  state madrugada.task_state DEFAULT 'pending'::madrugada.task_state NOT NULL,
  attempts integer DEFAULT 0 NOT NULL,
  losses integer DEFAULT 0 NOT NULL,
  slot text,
  worker_id bigint,
  lease_token bigint DEFAULT 0 NOT NULL,
  lease_expires_at timestamp with time zone,
  first_claimed_at timestamp with time zone,
  not_before timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
  waiting_for text,
  result jsonb,
  failure jsonb,
  spent_usd numeric DEFAULT 0 NOT NULL,
  completed_at timestamp with time zone,
  needs_usd numeric,
  undoing jsonb,
  CONSTRAINT task_attempts_check CHECK ((attempts >= 0)),
  CONSTRAINT task_batch_id_version_fkey FOREIGN KEY (batch_id, version) REFERENCES madrugada.batch(id, version),
  CONSTRAINT task_batch_key_position_key UNIQUE (batch_key, "position"),
  CONSTRAINT task_check CHECK (((state = 'running'::madrugada.task_state) = (slot IS NOT NULL))),
  CONSTRAINT task_check1 CHECK ((((slot IS NULL) = (worker_id IS NULL)) AND ((slot IS NULL) = (lease_expires_at IS NULL)))),
  CONSTRAINT task_check2 CHECK ((((state = 'completed'::madrugada.task_state) = (result IS NOT NULL)) AND ((state = 'completed'::madrugada.task_state) = (completed_at IS NOT NULL)))),
  CONSTRAINT task_check3 CHECK (((state = 'failed'::madrugada.task_state) = (failure IS NOT NULL))),
  CONSTRAINT task_check4 CHECK (((state = 'pending'::madrugada.task_state) OR (waiting_for IS NULL))),
  CONSTRAINT task_item_check CHECK ((item <> ''::text)),
  CONSTRAINT task_key_key UNIQUE (key),
  CONSTRAINT task_lease_token_check CHECK ((lease_token >= 0)),
  CONSTRAINT task_losses_check CHECK ((losses >= 0)),
  CONSTRAINT task_needs_usd_check CHECK ((needs_usd > (0)::numeric)),
  CONSTRAINT task_pkey PRIMARY KEY (id),
  CONSTRAINT task_position_check CHECK (("position" > 0)),
  CONSTRAINT task_spent_usd_check CHECK ((spent_usd >= (0)::numeric)),
  CONSTRAINT task_waiting_for_check CHECK ((waiting_for = ANY (ARRAY['doubt'::text, 'settlement'::text, 'refusal'::text, 'budget'::text, 'approval'::text, 'action'::text]))),
  CONSTRAINT task_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES madrugada.worker(id)
);

CREATE TABLE madrugada.worker (
  id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  host text NOT NULL,
  boot_id text NOT NULL,
  pid integer NOT NULL,
  pid_started_at bigint NOT NULL,
  started_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  heartbeat_at timestamp with time zone DEFAULT madrugada.now() NOT NULL,
  ended_at timestamp with time zone,
  ended_how text,
  CONSTRAINT worker_check CHECK (((ended_at IS NULL) = (ended_how IS NULL))),
  CONSTRAINT worker_pkey PRIMARY KEY (id)
) WITH (fillfactor=50);

-- Indexes that are not constraints

CREATE INDEX action_batch ON madrugada.action USING btree (batch_key, id);
CREATE INDEX action_executed_for ON madrugada.action USING btree (executed_for, committed_no);
CREATE INDEX action_executor ON madrugada.action USING btree (worker_id) WHERE (state = ANY (ARRAY['in_flight'::madrugada.action_state, 'rolling_back'::madrugada.action_state]));
CREATE INDEX action_task ON madrugada.action USING btree (task_id);
CREATE INDEX action_use_action ON madrugada.action_use USING btree (action_id);
CREATE INDEX action_use_retired ON madrugada.action_use USING btree (task_id) WHERE (retired_at IS NOT NULL);
CREATE INDEX action_waiting ON madrugada.action USING btree (expires_at) WHERE (state = ANY (ARRAY['proposed'::madrugada.action_state, 'approved'::madrugada.action_state]));
CREATE INDEX alert_delivery_due ON madrugada.alert_delivery USING btree (next_at) WHERE (delivered_at IS NULL);
CREATE INDEX attempt_holding ON madrugada.attempt USING btree (task_id, number) WHERE (held_usd > (0)::numeric);
CREATE INDEX audit_event_action ON madrugada.audit_event USING btree (action_id, id) WHERE (action_id IS NOT NULL);
CREATE INDEX audit_event_batch ON madrugada.audit_event USING btree (batch_key, id);
CREATE INDEX audit_event_task ON madrugada.audit_event USING btree (task_id, id) WHERE (task_id IS NOT NULL);
CREATE INDEX bill_line_request_id ON madrugada.bill_line USING btree (provider_request_id) WHERE (provider_request_id IS NOT NULL);
CREATE INDEX bill_line_tag ON madrugada.bill_line USING btree (tag) WHERE (tag IS NOT NULL);
CREATE INDEX call_intent_tag ON ONLY madrugada.call_intent USING btree (tag, batch_key);
CREATE INDEX call_outcome_request_id ON ONLY madrugada.call_outcome USING btree (provider_request_id, batch_key) WHERE (provider_request_id IS NOT NULL);
CREATE INDEX rehearsal_agent ON madrugada.rehearsal USING btree (agent_sha256, id);
CREATE INDEX task_again ON madrugada.task USING btree (batch_key, not_before) WHERE ((state = 'pending'::madrugada.task_state) AND (lease_token > 0));
CREATE INDEX task_failed ON madrugada.task USING btree (batch_key) WHERE (state = 'failed'::madrugada.task_state);
CREATE INDEX task_fresh ON madrugada.task USING btree (batch_key, "position") WHERE ((state = 'pending'::madrugada.task_state) AND (lease_token = 0));
CREATE INDEX task_held ON madrugada.task USING btree (worker_id) WHERE (state = 'running'::madrugada.task_state);
CREATE INDEX task_lease ON madrugada.task USING btree (lease_expires_at) WHERE (state = 'running'::madrugada.task_state);
CREATE INDEX task_needing ON madrugada.task USING btree (batch_key, needs_usd) WHERE ((state = 'pending'::madrugada.task_state) AND (needs_usd IS NOT NULL));
CREATE INDEX worker_living ON madrugada.worker USING btree (id) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX action_use_current ON madrugada.action_use USING btree (task_id, content_sha256, ordinal) WHERE (retired_at IS NULL);
CREATE UNIQUE INDEX alert_open ON madrugada.alert USING btree (kind, batch_key, action_id) NULLS NOT DISTINCT WHERE (acknowledged_at IS NULL);
CREATE UNIQUE INDEX call_outcome_answer ON ONLY madrugada.call_outcome USING btree (batch_key, task_id, seq) WHERE answers;
CREATE UNIQUE INDEX stop_switch_in_force ON madrugada.stop_switch USING btree ((true)) WHERE (lifted_at IS NULL);

-- Functions

CREATE OR REPLACE FUNCTION madrugada.abort_action(the_action bigint, the_task bigint, the_worker bigint, token bigint, because text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  PERFORM FROM action a WHERE a.id = the_action FOR UPDATE;
  IF NOT holds_lease(the_task, the_worker, token) THEN
    RETURN false;
  END IF;
  UPDATE action a SET state = 'aborted', why = because, ended_at = now() WHERE a.id = the_action AND a.state = 'approved';
  RETURN FOUND;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.acknowledge_alert(the_alert bigint, note text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF said('by') IS NULL THEN
    RAISE EXCEPTION 'an alert is acknowledged by a person, with a name';
  END IF;
  UPDATE alert a SET acknowledged_at = now(), acknowledged_by = said('by'), ack_note = note
   WHERE a.id = the_alert AND a.acknowledged_at IS NULL;
  RETURN CASE WHEN FOUND THEN true WHEN EXISTS (SELECT FROM alert a WHERE a.id = the_alert) THEN false END;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.acknowledge_failed_tasks()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE alert a
     SET acknowledged_at = now(), acknowledged_by = coalesce(said('by'), session_user), ack_note = format('task %s retried: %s', NEW.key, said('reason'))
   WHERE a.batch_key = NEW.batch_key AND a.kind = 'failed tasks' AND a.acknowledged_at IS NULL;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.action_challenge(a madrugada.action)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT left(a.digest, 8) || ' ' || btrim(regexp_replace(a.rollback_plan, '\s+', ' ', 'g')) $function$;

CREATE OR REPLACE FUNCTION madrugada.action_content(batch_id text, item text, name text, arguments jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT madrugada.sha256_hex(jsonb_build_array(batch_id, item, name, arguments)::text) $function$;

CREATE OR REPLACE FUNCTION madrugada.action_digest(a madrugada.action)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT madrugada.sha256_hex(jsonb_build_array(a.key, a.batch_id, a.item, a.name, a.arguments, a.generation, a.kind, a.intent, a.permissions,
      a.blast_radius, a.rollback_kind, a.rollback_plan, a.approval, extract(epoch FROM a.expires_at), a.on_expiry, a.proposed_by, a.lineage, a.present)::text)
  $function$;

CREATE OR REPLACE FUNCTION madrugada.allow_unrehearsed(the_batch text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF said('by') IS NULL THEN
    RAISE EXCEPTION 'letting actions be proposed without a rehearsal takes a person, with a name';
  END IF;
  UPDATE batch b SET unrehearsed = true WHERE b.batch_key = the_batch AND NOT b.unrehearsed;
  PERFORM record_event('batch', 'unrehearsed actions allowed', the_batch, NULL, NULL, NULL, NULL, NULL, NULL, said('reason'));
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.another_relies_on(the_action bigint, the_task bigint)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT min(t.key) FROM action_use u JOIN task t ON t.id = u.task_id
     WHERE u.action_id = the_action AND u.task_id <> the_task AND u.retired_at IS NULL AND t.state <> 'failed'
  $function$;

CREATE OR REPLACE FUNCTION madrugada.attempt_money(the_task bigint, the_attempt bigint, OUT spent numeric, OUT held numeric)
 RETURNS record
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_action()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_alert()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('alert', CASE WHEN TG_OP = 'INSERT' THEN 'raised' ELSE 'acknowledged' END, NEW.batch_key, NEW.task_id, NULL, NULL,
    NULL, NULL, NULL, CASE WHEN TG_OP = 'INSERT' THEN NEW.kind || ': ' || NEW.message ELSE concat_ws(': ', NEW.kind, NEW.ack_note) END);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_batch_state()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('batch',
    CASE WHEN TG_OP = 'INSERT' THEN 'loaded' WHEN NEW.state = 'open' THEN 'reopened' ELSE NEW.state::text END, NEW.batch_key, NULL,
    CASE WHEN TG_OP = 'UPDATE' THEN OLD.state::text END, NEW.state::text, NULL, NULL, NULL, coalesce(said('reason'), NEW.stop_reason));
  IF NEW.state = 'open' THEN
    PERFORM pg_notify('madrugada_work', NEW.batch_key);
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_bill()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('bill', 'imported', NEW.batch_key, NULL, NULL, NULL, NULL, NULL, NULL,
    format('%s: %s lines, sha256 %s', NEW.source, NEW.line_count, NEW.sha256));
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_fall_back()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('batch', 'fall-back set', NEW.batch_key, NULL, NULL, NULL, NULL, NULL, NULL,
    format('%s after %s refusals of a call', NEW.fall_back_model, NEW.fall_back_after));
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_model_price()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  price model_price%ROWTYPE := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  PERFORM record_event('price',
    CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END, NULL, NULL,
    CASE WHEN TG_OP <> 'INSERT' THEN describe_price(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN describe_price(NEW) END, NULL, NULL, NULL,
    concat_ws(': ', format('%s from %s on, above %s tokens (%s)', price.model, price.valid_from, price.above_input_tokens, price.source), said('reason')));
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_settlement()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('doubt', 'settled', NEW.batch_key, NEW.task_id, 'in doubt', replace(NEW.verdict::text, '_', ' '), NULL, NULL, NULL,
    format('call %s, dispatch %s%s%s: %s', NEW.seq, NEW.dispatch, ', US$ ' || NEW.cost_usd,
           CASE WHEN NEW.pay_again THEN ', to be paid again' END, NEW.reason));
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_stop()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('stop', CASE WHEN TG_OP = 'INSERT' THEN 'stopped everything' ELSE 'lifted' END, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN TG_OP = 'INSERT' THEN NEW.reason ELSE said('reason') END);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_task_state()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.audit_worker()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM record_event('worker', CASE WHEN TG_OP = 'INSERT' THEN 'started' ELSE 'ended' END, NULL, NULL, NULL, NULL, NULL, NEW.id, NULL, NEW.ended_how);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.batch_named(name text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  keys text[] := ARRAY(SELECT b.batch_key FROM batch b WHERE name IN (b.batch_key, b.id) ORDER BY b.created_at);
BEGIN
  IF cardinality(keys) = 1 THEN
    RETURN keys[1];
  END IF;
  RAISE EXCEPTION USING MESSAGE = CASE WHEN keys = '{}' THEN format('no batch %s', name)
    ELSE format('batch %s has several versions; say which: %s', name, array_to_string(keys, ', ')) END;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.begin_execution(the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, kept_before jsonb, within_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.begin_spending()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO batch_spending (batch_key) VALUES (NEW.batch_key);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.begin_undo(the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, seen_undo integer, seen jsonb, within_ms bigint, because text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.body_text(body bytea)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
BEGIN
  RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN encode(body, 'escape');
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.bucket_after(full_at timestamp with time zone, per_minute bigint, announced jsonb, taken bigint, used bigint, refused boolean)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
    SELECT CASE WHEN per_minute IS NULL THEN full_at ELSE greatest(
      full_at - madrugada.fill_time(taken, per_minute) + madrugada.fill_time(used, per_minute),
      CASE WHEN announced ? 'remaining' THEN madrugada.now() + interval '1 minute' - madrugada.fill_time((announced ->> 'remaining')::bigint, per_minute)
           WHEN refused AND announced ? 'limit' THEN madrugada.now() + interval '1 minute' END) END
  $function$;

CREATE OR REPLACE FUNCTION madrugada.bucket_holds_at(full_at timestamp with time zone, amount bigint, per_minute bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT full_at - interval '1 minute' + madrugada.fill_time(amount, per_minute) $function$;

CREATE OR REPLACE FUNCTION madrugada.calling_role()
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$ SELECT coalesce(nullif(current_setting('role'), 'none'), session_user) $function$;

CREATE OR REPLACE FUNCTION madrugada.check_server_identity()
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.choose_answer()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  NEW.answers := NEW.kind IN ('charged', 'recovered') AND NOT EXISTS (
    SELECT FROM call_outcome o WHERE o.batch_key = NEW.batch_key AND o.task_id = NEW.task_id AND o.seq = NEW.seq AND o.answers);
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.claim_delivery(channels text[])
 RETURNS TABLE(alert_id bigint, channel text, document jsonb)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.claim_task(the_batch text, the_slot text, the_worker bigint, the_agent text, after_position integer)
 RETURNS TABLE(task_id bigint, key text, item text, "position" integer, input jsonb, lease_token bigint, lease_seconds integer, first_claimed_at timestamp with time zone, agent text, agent_options jsonb, doubt_policy madrugada.doubt_policy, max_attempts integer, previous_agent_sha256 text, claimed_before boolean, allowance_usd numeric, committed_usd numeric, task_budget_usd numeric, counts_velocity boolean, max_output_tokens integer, fall_back_model text, fall_back_after integer, undoing jsonb)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.close_batch(the_batch text, give_up_pending boolean)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.complete_task(the_task bigint, the_worker bigint, token bigint, answer jsonb, replayed_calls integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.complete_tasks(tasks bigint[], workers bigint[], tokens bigint[], answers jsonb[], replayed integer[], waits boolean)
 RETURNS TABLE(place integer, done boolean)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.conclude_action(the_action bigint, the_task bigint, the_worker bigint, token bigint, seen_execution integer, seen_undo integer, to_state madrugada.action_state, read_back jsonb, weak boolean, because text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.confirm_server_identity()
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO server_identity (system_identifier, timeline_id)
    SELECT s.system_identifier, c.timeline_id FROM pg_control_system() s, pg_control_checkpoint() c
    ON CONFLICT (system_identifier, timeline_id) DO UPDATE SET seen_at = now();
    UPDATE alert SET acknowledged_at = now(), acknowledged_by = coalesce(said('by'), session_user), ack_note = 'server confirmed: ' || said('reason')
     WHERE kind = 'server' AND acknowledged_at IS NULL;
  $function$;

CREATE OR REPLACE FUNCTION madrugada.count_drawn(the_batch text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM settle_allowance(a.task_id, a.number)
    FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.batch_key = the_batch AND a.ended_at IS NOT NULL AND a.allowance_usd IS NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.count_failures()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.create_partitions(the_batch text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '300ms'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.cut_off(the_batch text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.decide_action(the_action bigint, shown_digest text, the_verdict text, challenge text, the_checklist text[], OUT outcome text, OUT message text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.describe_price(price madrugada.model_price)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
    SELECT format('input %s, output %s, cache read %s, cache write 5m %s, 1h %s, factors %s, tools %s, context %s, output at most %s',
      price.input_usd_per_mtok, price.output_usd_per_mtok, price.cache_read_usd_per_mtok, price.cache_write_5m_usd_per_mtok,
      price.cache_write_1h_usd_per_mtok, price.factors, price.server_tool_usd_per_1000,
      coalesce(price.context_tokens::text, 'unknown'), coalesce(price.max_output_tokens::text, 'unknown'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.draw(the_batch text, the_month date, needed numeric, asked numeric, OUT granted numeric, OUT free numeric, OUT reached text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  SELECT f.free, f.reached INTO draw.free, draw.reached FROM lock_free_money(the_batch, the_month) f;
  IF free < needed THEN
    RETURN;
  END IF;
  granted := CASE WHEN free >= 20 * asked THEN greatest(asked, needed) ELSE needed END;
  PERFORM move_drawn(the_batch, the_month, granted);
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.draw_allowance(the_task bigint, the_worker bigint, token bigint, needed numeric, asked numeric, OUT granted numeric, OUT free numeric, OUT reached text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.draw_allowances(tasks bigint[], workers bigint[], tokens bigint[], needed numeric[], asked numeric[], waits boolean)
 RETURNS TABLE(place integer, is_done boolean, granted numeric, free numeric, reached text)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.draw_for_claim(the_batch text, the_task bigint, begun boolean, needs numeric)
 RETURNS numeric
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.end_attempt(the_task bigint, the_worker bigint, token bigint, how madrugada.attempt_ending, why jsonb, final boolean, wait_until timestamp with time zone, wait_for text, replayed_calls integer, needs numeric DEFAULT NULL::numeric)
 RETURNS madrugada.task_state
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.end_worker(the_worker bigint, how text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.executor_at_work(a madrugada.action)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT a.gave_up_at IS NULL AND a.deadline_at + interval '30 seconds' >= now()
       AND NOT EXISTS (SELECT FROM worker w WHERE w.id = a.worker_id AND w.ended_at IS NOT NULL)
  $function$;

CREATE OR REPLACE FUNCTION madrugada.executor_gone_at(a madrugada.action)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$ SELECT coalesce(a.gave_up_at, (SELECT w.ended_at FROM worker w WHERE w.id = a.worker_id), a.deadline_at + interval '30 seconds') $function$;

CREATE OR REPLACE FUNCTION madrugada.fence_intent()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.fence_step()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  PERFORM FROM task t
   WHERE t.id = NEW.task_id AND t.batch_key = NEW.batch_key AND t.state = 'running'
     AND t.lease_token = NEW.lease_token AND t.worker_id = NEW.worker_id
     FOR SHARE OF t;
  RETURN CASE WHEN FOUND THEN NEW END;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.fill_time(amount bigint, per_minute bigint)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT interval '1 minute' * (least(amount, per_minute)::double precision / per_minute) $function$;

CREATE OR REPLACE FUNCTION madrugada.give_back(task_ids bigint[], why text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM set_config('madrugada.reason', why, true);
  UPDATE attempt a SET ended_at = now(), ending = 'released', error = why
    FROM task t WHERE t.id = ANY (task_ids) AND a.task_id = t.id AND a.number = t.lease_token;
  UPDATE task t SET state = 'pending', attempts = t.attempts - 1, not_before = now(), slot = NULL, worker_id = NULL, lease_expires_at = NULL
   WHERE t.id = ANY (task_ids);
  PERFORM settle_ended(task_ids, ARRAY(SELECT t.lease_token FROM unnest(task_ids) WITH ORDINALITY g (id, place) JOIN task t USING (id) ORDER BY g.place));
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.give_up_execution(the_action bigint, the_worker bigint)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    UPDATE action a SET gave_up_at = coalesce(a.gave_up_at, now()) -- the first time counts: how long a target is silent is measured from it
     WHERE a.id = the_action AND a.worker_id = the_worker AND a.state IN ('in_flight', 'rolling_back')
  $function$;

CREATE OR REPLACE FUNCTION madrugada.guard_action()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_batch_state()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_closed_list()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_model_price()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF 'built in' IN (CASE WHEN TG_OP <> 'INSERT' THEN OLD.source END, CASE WHEN TG_OP <> 'DELETE' THEN NEW.source END)
     AND NOT pg_has_role(current_user, 'madrugada_owner', 'MEMBER') THEN
    RAISE EXCEPTION 'built-in prices come with the program: add a price of your own, which counts before them (madrugada price load)'
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_task_count()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  loaded integer := (SELECT count(*) FROM task t WHERE t.batch_key = NEW.batch_key);
BEGIN
  IF loaded <> NEW.task_count THEN
    RAISE EXCEPTION 'batch %: % tasks announced, % loaded', NEW.batch_key, NEW.task_count, loaded USING ERRCODE = 'check_violation';
  END IF;
  PERFORM pg_notify('madrugada_work', NEW.batch_key);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_task_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF NOT EXISTS (SELECT FROM batch b WHERE b.batch_key = OLD.batch_key AND b.state = 'archived') THEN
    RAISE EXCEPTION 'task %: no task is removed from a batch that is not archived', OLD.key USING ERRCODE = 'check_violation';
  END IF;
  RETURN OLD;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.guard_task_state()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.has_effects(the_task bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$ SELECT EXISTS (SELECT FROM action a WHERE a.executed_for = the_task AND a.state IN ('in_flight', 'committed', 'rolling_back')) $function$;

CREATE OR REPLACE FUNCTION madrugada.has_limits(the_batch text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT EXISTS (SELECT FROM batch b WHERE b.batch_key = the_batch AND (b.budget_usd IS NOT NULL OR b.task_budget_usd IS NOT NULL))
        OR EXISTS (SELECT FROM month_spending)
  $function$;

CREATE OR REPLACE FUNCTION madrugada.heartbeat(the_worker bigint, task_ids bigint[], lease_tokens bigint[], advancing boolean[])
 RETURNS TABLE(lost_task bigint, lost_token bigint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.holds_lease(the_task bigint, the_worker bigint, token bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  t task%ROWTYPE;
BEGIN
  SELECT * INTO t FROM task WHERE id = the_task FOR SHARE;
  RETURN t.state = 'running' AND t.worker_id = the_worker AND t.lease_token = token AND t.lease_expires_at > now();
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.is_approved_as_it_is(a madrugada.action)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT action_digest(a) = a.digest AND (a.approval = 'none' OR
      (SELECT count(DISTINCT d.person) FROM action_decision d WHERE d.action_id = a.id AND d.verdict = 'approve' AND d.digest = a.digest)
        >= CASE WHEN a.approval = 'two-people' THEN 2 ELSE 1 END)
  $function$;

CREATE OR REPLACE FUNCTION madrugada.is_in_doubt(the_task bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN EXISTS (
    SELECT FROM task t
      JOIN batch b ON b.batch_key = t.batch_key
      JOIN call_intent i ON i.batch_key = t.batch_key AND i.task_id = t.id
     WHERE t.id = the_task AND NOT may_pay_again(i, b.doubt_policy)
       AND NOT EXISTS (SELECT FROM call_outcome o WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.answers));
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.is_out_of_money(the_batch text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.is_paced(p madrugada.provider_pace)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$ SELECT greatest(p.refused_at, p.paused_until) > madrugada.now() - interval '1 hour' $function$;

CREATE OR REPLACE FUNCTION madrugada.is_rehearsed(the_agent text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$ SELECT coalesce((SELECT r.verdict = 'production' FROM rehearsal r WHERE r.agent_sha256 = the_agent ORDER BY r.id DESC LIMIT 1), false) $function$;

CREATE OR REPLACE FUNCTION madrugada.is_stopped()
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$ SELECT EXISTS (SELECT FROM madrugada.stop_switch WHERE lifted_at IS NULL) $function$;

CREATE OR REPLACE FUNCTION madrugada.is_without_effect(state madrugada.action_state)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT state IN ('rejected', 'expired', 'aborted', 'rolled_back') $function$;

CREATE OR REPLACE FUNCTION madrugada.journal_cost(the_batch text, the_task bigint)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
    SELECT coalesce(sum(c.cost_usd), 0) FROM audit_journal_charges c WHERE c.batch_key = the_batch AND c.task_id = the_task
  $function$;

CREATE OR REPLACE FUNCTION madrugada.leave_worker(the_worker bigint, how text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE worker w SET ended_at = now(), ended_how = how WHERE w.id = the_worker AND w.ended_at IS NULL;
  PERFORM give_back(
    ARRAY(SELECT t.id FROM task t WHERE t.state = 'running' AND t.worker_id = the_worker ORDER BY t.id FOR UPDATE), 'its worker left: ' || how);
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.lift_stop()
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM require_person('lifting the stop of everything');
  UPDATE stop_switch s SET lifted_at = now() WHERE s.lifted_at IS NULL;
  IF FOUND THEN
    PERFORM pg_notify('madrugada_work', '');
    RETURN true;
  END IF;
  RETURN false;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.limits_text(budget numeric, task_budget numeric, velocity numeric)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT format('batch %s, task %s, ten minutes %s', coalesce('US$ ' || budget, 'no limit'), coalesce('US$ ' || task_budget, 'no limit'),
                  coalesce('US$ ' || velocity, 'no limit'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.load_batch(the_id text, the_version text, the_agent text, the_options jsonb, the_sha256 text, the_count integer, the_budget numeric, attempts integer, the_lease_seconds integer, policy madrugada.doubt_policy, limits jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.lock_free_money(the_batch text, the_month date, OUT free numeric, OUT reached text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.lock_limits()
 RETURNS void
 LANGUAGE sql
AS $function$ SELECT pg_advisory_xact_lock(madrugada.slot_lock_class() + 1, 0) $function$;

CREATE OR REPLACE FUNCTION madrugada.lock_spending(tasks bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  PERFORM FROM batch_spending s WHERE s.batch_key IN (SELECT t.batch_key FROM task t WHERE t.id = ANY (tasks)) ORDER BY s.batch_key FOR UPDATE;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.lose_attempts(task_ids bigint[], why text)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.may_pay_again(i madrugada.call_intent, policy madrugada.doubt_policy)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
  IF EXISTS (SELECT FROM settlement s
              WHERE s.batch_key = i.batch_key AND s.task_id = i.task_id AND s.seq = i.seq AND s.dispatch = i.dispatch
                AND (s.verdict = 'not_charged' OR s.pay_again)) THEN
    RETURN true;
  END IF;
  RETURN policy = 'pay_again' AND NOT sender_at_work(i);
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.may_work(the_task bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT NOT is_stopped() AND EXISTS (SELECT FROM task t JOIN batch b USING (batch_key) WHERE t.id = the_task AND b.state = 'open')
  $function$;

CREATE OR REPLACE FUNCTION madrugada.month_of(moment timestamp with time zone)
 RETURNS date
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT date_trunc('month', moment AT TIME ZONE 'UTC')::date $function$;

CREATE OR REPLACE FUNCTION madrugada.move_drawn(the_batch text, the_month date, usd numeric)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE batch_spending s SET drawn_usd = s.drawn_usd + usd WHERE s.batch_key = the_batch;
  UPDATE month_spending m SET drawn_usd = m.drawn_usd + usd WHERE m.month = the_month;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.next_claimable_at(the_batch text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT t.not_before FROM task t
     WHERE t.batch_key = the_batch AND t.state = 'pending' AND t.lease_token > 0 AND t.not_before < 'infinity'
     ORDER BY t.not_before LIMIT 1
  $function$;

CREATE OR REPLACE FUNCTION madrugada.note_action(a madrugada.action, event text, from_state text, reason text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO audit_event (subject, event, batch_key, task_id, action_id, from_state, to_state, slot, worker_id, lease_token, reason, by_name, os_user)
    VALUES ('action', event, a.batch_key, a.task_id, a.id, from_state, a.state::text, a.slot, a.worker_id, a.lease_token, reason, said('by'), said('os_user'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.note_pace(the_origin text, the_model text, pause_ms double precision, announced jsonb, taken_input bigint, taken_output bigint, used_input bigint, used_output bigint, used_tokens bigint, counted boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  refused boolean := pause_ms IS NOT NULL;
  pause_end timestamptz := now() + make_interval(secs => pause_ms / 1000);
  input_limit bigint := announced #>> '{input,limit}';
  output_limit bigint := announced #>> '{output,limit}';
  tokens_limit bigint := announced #>> '{tokens,limit}';
  gap interval;
  was_paced boolean;
BEGIN
  IF refused THEN
    SELECT is_paced(p) INTO was_paced FROM provider_pace p WHERE p.origin = the_origin AND p.model = the_model;
    INSERT INTO provider_pace (origin, model, paused_until, refused_at) VALUES (the_origin, the_model, pause_end, now())
      ON CONFLICT (origin, model) DO NOTHING;
  END IF;
  SELECT interval '1 minute' / CASE WHEN announced ? 'requests' THEN (announced ->> 'requests')::double precision ELSE p.requests_per_minute END
    INTO gap FROM provider_pace p WHERE p.origin = the_origin AND p.model = the_model;
  UPDATE provider_pace p
     SET paused_until = greatest(p.paused_until, pause_end),
         refused_at = CASE WHEN refused THEN now() ELSE p.refused_at END,
         requests_per_minute = CASE WHEN announced ? 'requests' THEN (announced ->> 'requests')::double precision ELSE p.requests_per_minute END,
         next_at = CASE WHEN refused AND NOT counted AND gap IS NOT NULL
           THEN greatest(p.next_at, least(greatest(p.next_at, now()) + gap, now() + interval '1 minute')) ELSE p.next_at END,
         input_per_minute = coalesce(input_limit, p.input_per_minute),
         output_per_minute = coalesce(output_limit, p.output_per_minute),
         tokens_per_minute = coalesce(tokens_limit, p.tokens_per_minute),
         input_full_at = bucket_after(p.input_full_at, coalesce(input_limit, p.input_per_minute), announced -> 'input', taken_input, used_input, refused),
         output_full_at = bucket_after(p.output_full_at, coalesce(output_limit, p.output_per_minute), announced -> 'output', taken_output, used_output, refused),
         tokens_full_at = bucket_after(p.tokens_full_at, coalesce(tokens_limit, p.tokens_per_minute), announced -> 'tokens',
           taken_input + taken_output, used_tokens, refused)
   WHERE p.origin = the_origin AND p.model = the_model AND (refused OR is_paced(p));
  IF refused AND was_paced IS NOT TRUE THEN
    PERFORM pg_notify('madrugada_pace', '');
  END IF;
END $function$;

CREATE OR REPLACE FUNCTION madrugada.note_spending(the_batch text, the_worker bigint, settled numeric, held numeric)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO spending_minute AS s (batch_key, minute, worker_id, settled_usd, held_usd)
    VALUES (the_batch, date_trunc('minute', now()), the_worker, greatest(settled, 0), greatest(held, 0))
    ON CONFLICT (batch_key, minute, worker_id) DO UPDATE SET settled_usd = s.settled_usd + EXCLUDED.settled_usd, held_usd = EXCLUDED.held_usd
  $function$;

CREATE OR REPLACE FUNCTION madrugada.now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$SELECT pg_catalog.statement_timestamp()$function$;

CREATE OR REPLACE FUNCTION madrugada.peak_of_task(the_task bigint)
 RETURNS numeric
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.propose_action(the_task bigint, the_worker bigint, token bigint, the_ordinal integer, proposal jsonb)
 RETURNS SETOF madrugada.action
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.raise_action_alert(a madrugada.action, kind text, message text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO alert (kind, batch_key, task_id, action_id, message) VALUES (kind, a.batch_key, a.task_id, a.id, message) ON CONFLICT DO NOTHING
  $function$;

CREATE OR REPLACE FUNCTION madrugada.record_delivery(the_alert bigint, the_channel text, error text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    UPDATE alert_delivery SET delivered_at = CASE WHEN error IS NULL THEN now() END, last_error = error
     WHERE alert_id = the_alert AND channel = the_channel
  $function$;

CREATE OR REPLACE FUNCTION madrugada.record_effect(the_action bigint, the_worker bigint, the_execution integer, returned jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE action a SET effect = returned
   WHERE a.id = the_action AND a.worker_id = the_worker AND a.execution = the_execution AND a.state = 'in_flight';
  RETURN FOUND;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.record_event(subject text, event text, batch_key text, task_id bigint, from_state text, to_state text, slot text, worker_id bigint, lease_token bigint, reason text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO audit_event (subject, event, batch_key, task_id, from_state, to_state, slot, worker_id, lease_token, reason, by_name, os_user)
    VALUES (subject, event, batch_key, task_id, from_state, to_state, slot, worker_id, lease_token, reason, said('by'), said('os_user'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.record_rehearsal(the_agent_sha256 text, the_agent text, the_verdict text, the_report jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.refusal_of_decision(a madrugada.action, shown_digest text, the_verdict text, challenge text, the_checklist text[])
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.register_worker(host text, boot_id text, pid integer, pid_started_at bigint)
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    INSERT INTO worker (host, boot_id, pid, pid_started_at) VALUES (host, boot_id, pid, pid_started_at) RETURNING id
  $function$;

CREATE OR REPLACE FUNCTION madrugada.release_silent_workers()
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.release_unknown_claims(the_slot text, the_worker bigint, known_tasks bigint[])
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  unseen bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE t.state = 'running' AND t.worker_id = the_worker AND t.slot = the_slot AND t.id <> ALL (known_tasks) AND t.lease_expires_at > now()
     ORDER BY t.id FOR UPDATE);
BEGIN
  PERFORM give_back(unseen, 'claimed, but the commit was not seen');
  RETURN cardinality(unseen);
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.reopen_actions()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE action_use u SET retired_at = now() FROM action a
   WHERE u.task_id = NEW.id AND u.retired_at IS NULL AND a.id = u.action_id AND is_without_effect(a.state);
  UPDATE task t SET undoing = NULL WHERE t.id = NEW.id AND t.undoing IS NOT NULL;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.require_person(deed text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION '% needs a name and a reason', deed
      USING HINT = 'set madrugada.by and madrugada.reason in the same transaction, or use the madrugada command';
  END IF;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.resume_batch(the_batch text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.retry_task(the_task bigint, pay_from integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.said(setting text)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$ SELECT nullif(pg_catalog.current_setting('madrugada.' || setting, true), '') $function$;

CREATE OR REPLACE FUNCTION madrugada.sender_at_work(i madrugada.call_intent)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  RETURN i.deadline_at + interval '30 seconds' >= now()
     AND NOT EXISTS (SELECT FROM worker w WHERE w.id = i.worker_id AND w.ended_at IS NOT NULL)
     AND NOT EXISTS (SELECT FROM call_outcome o
       WHERE o.batch_key = i.batch_key AND o.task_id = i.task_id AND o.seq = i.seq AND o.dispatch = i.dispatch AND o.kind = 'unknown');
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.server_is_known()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT NOT EXISTS (SELECT FROM server_identity) OR EXISTS (
      SELECT FROM (SELECT * FROM server_identity ORDER BY seen_at DESC LIMIT 1) i, pg_control_system() s, pg_control_checkpoint() c
       WHERE i.system_identifier = s.system_identifier AND i.timeline_id = c.timeline_id)
  $function$;

CREATE OR REPLACE FUNCTION madrugada.set_batch_limits(the_batch text, budget numeric, task_budget numeric, velocity numeric)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.set_month_limit(the_month date, cap numeric)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.settle_action(the_action bigint, to_state madrugada.action_state)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.settle_allowance(the_task bigint, the_attempt bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.settle_doubt(the_batch text, the_task bigint, the_seq integer, the_dispatch integer, the_verdict madrugada.settlement_verdict, usd numeric, paying_again boolean, the_bill bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  i call_intent%ROWTYPE;
  which text;
  known text;
BEGIN
  IF said('by') IS NULL OR said('reason') IS NULL THEN
    RAISE EXCEPTION 'a doubt is settled by a person: it needs a name and a reason';
  END IF;
  SELECT format('dispatch %s of call %s of task %s', the_dispatch, the_seq, t.key) INTO which FROM task t WHERE t.id = the_task FOR UPDATE;
  SELECT * INTO i FROM call_intent c WHERE c.batch_key = the_batch AND c.task_id = the_task AND c.seq = the_seq AND c.dispatch = the_dispatch;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no %', coalesce(which, format('task %s', the_task));
  END IF;
  SELECT o.kind::text INTO known FROM call_outcome o
   WHERE o.batch_key = the_batch AND o.task_id = the_task AND o.seq = the_seq AND o.dispatch = the_dispatch AND settles(o.kind) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '% is not in doubt: the journal has it as %', which, replace(known, '_', ' ');
  END IF;
  SELECT format('%s by %s', replace(s.verdict::text, '_', ' '), s.settled_by) INTO known FROM settlement s
   WHERE s.batch_key = the_batch AND s.task_id = the_task AND s.seq = the_seq AND s.dispatch = the_dispatch;
  IF FOUND THEN
    RAISE EXCEPTION '% was settled already, as %', which, known;
  END IF;
  IF sender_at_work(i) THEN
    RAISE EXCEPTION '%: its sender may still be at work until %; settle it after that, or when the sender is known to have ended',
      which, to_char((i.deadline_at + interval '30 seconds') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
  END IF;
  INSERT INTO settlement (batch_key, task_id, seq, dispatch, verdict, cost_usd, pay_again, bill_id, reason, settled_by)
  VALUES (the_batch, the_task, the_seq, the_dispatch, the_verdict, usd, paying_again, the_bill, said('reason'), said('by'));
  PERFORM wake_task(the_task);
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.settle_ended(task_ids bigint[], attempts bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.settles(kind madrugada.outcome_kind)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT kind <> 'unknown' $function$;

CREATE OR REPLACE FUNCTION madrugada.sha256_hex(what text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ SELECT encode(sha256(convert_to(what, 'UTF8')), 'hex') $function$;

CREATE OR REPLACE FUNCTION madrugada.share_limits()
 RETURNS void
 LANGUAGE sql
AS $function$ SELECT pg_advisory_xact_lock_shared(madrugada.slot_lock_class() + 1, 0) $function$;

CREATE OR REPLACE FUNCTION madrugada.slot_is_locked_by(the_slot text, the_worker bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
      WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid::bigint = slot_lock_class() AND l.objid::bigint = (slot_lock_key(the_slot)::bigint & 4294967295) AND l.granted
        AND a.application_name LIKE 'madrugada/w' || the_worker || '/%')
  $function$;

CREATE OR REPLACE FUNCTION madrugada.slot_lock_class()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$SELECT 1835102322$function$;

CREATE OR REPLACE FUNCTION madrugada.slot_lock_key(the_slot text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$SELECT hashtext(the_slot)$function$;

CREATE OR REPLACE FUNCTION madrugada.spent_lately(the_batch text)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT coalesce(sum(s.settled_usd), 0) + coalesce((
             SELECT sum(last.held_usd) FROM (
               SELECT DISTINCT ON (m.worker_id) m.held_usd FROM spending_minute m JOIN worker w ON w.id = m.worker_id AND w.ended_at IS NULL
                WHERE m.batch_key = the_batch ORDER BY m.worker_id, m.minute DESC) last), 0)
      FROM spending_minute s WHERE s.batch_key = the_batch AND s.minute > now() - interval '11 minutes' -- whole minutes: rather one too many
  $function$;

CREATE OR REPLACE FUNCTION madrugada.stop_automatically(the_batch text, kind text, why text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.stop_batch(the_batch text, why text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE batch b SET state = 'stopped', stop_reason = why WHERE b.batch_key = the_batch AND b.state = 'open';
  IF FOUND THEN
    PERFORM pg_notify('madrugada_stop', the_batch);
    RETURN true;
  END IF;
  RETURN false;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.stop_everything(why text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO stop_switch (reason) VALUES (why) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    PERFORM pg_notify('madrugada_stop', '');
    RETURN true;
  END IF;
  RETURN false;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.sweep_expired_leases(expired_after timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  expired bigint[] := ARRAY(
    SELECT t.id FROM task t
     WHERE t.state = 'running' AND t.lease_expires_at > expired_after AND t.lease_expires_at <= now()
     ORDER BY t.id FOR UPDATE SKIP LOCKED);
BEGIN
  RETURN CASE WHEN expired = '{}' THEN 0 ELSE lose_attempts(expired, 'its lease ran out: no heartbeat, or no progress') END;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.take_turn(the_origin text, the_model text, input bigint, output bigint, most_wait_ms double precision)
 RETURNS TABLE(granted boolean, wait_ms double precision, at timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  chance double precision := random();
  p provider_pace%ROWTYPE;
BEGIN
  SELECT * INTO p FROM provider_pace its WHERE its.origin = the_origin AND its.model = the_model AND is_paced(its) FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  at := turn_at(p, input, output, chance);
  granted := at <= now() + make_interval(secs => most_wait_ms / 1000);
  IF granted THEN
    UPDATE provider_pace its
       SET next_at = at + coalesce(interval '1 minute' / p.requests_per_minute, interval '0'),
           input_full_at = coalesce(greatest(p.input_full_at, at) + fill_time(input, p.input_per_minute), p.input_full_at),
           output_full_at = coalesce(greatest(p.output_full_at, at) + fill_time(output, p.output_per_minute), p.output_full_at),
           tokens_full_at = coalesce(greatest(p.tokens_full_at, at) + fill_time(input + output, p.tokens_per_minute), p.tokens_full_at)
     WHERE its.origin = the_origin AND its.model = the_model;
  END IF;
  wait_ms := greatest(extract(epoch FROM at - now()) * 1000, 0);
  RETURN NEXT;
END $function$;

CREATE OR REPLACE FUNCTION madrugada.tell_of_failed_tasks()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.tend_actions()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.tend_budgets()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.turn_at(p madrugada.provider_pace, input bigint, output bigint, chance double precision)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
    SELECT greatest(madrugada.now(), p.paused_until,
      CASE WHEN p.requests_per_minute IS NULL
           THEN p.paused_until + chance * least(p.paused_until - p.refused_at, interval '30 seconds') ELSE p.next_at END,
      madrugada.bucket_holds_at(p.input_full_at, input, p.input_per_minute),
      madrugada.bucket_holds_at(p.output_full_at, output, p.output_per_minute),
      madrugada.bucket_holds_at(p.tokens_full_at, input + output, p.tokens_per_minute))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.waits_for_action(the_task bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT EXISTS (SELECT FROM action_use u JOIN action a ON a.id = u.action_id
      WHERE u.task_id = the_task AND u.retired_at IS NULL AND a.state IN ('approved', 'in_flight', 'rolling_back'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.waits_for_person(the_task bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
    SELECT EXISTS (SELECT FROM action_use u JOIN action a ON a.id = u.action_id
      WHERE u.task_id = the_task AND u.retired_at IS NULL AND a.state IN ('proposed', 'unknown', 'needs_person'))
  $function$;

CREATE OR REPLACE FUNCTION madrugada.wake_action_tasks(the_action bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.wake_doubtful_tasks(the_worker bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.wake_for_budget(the_batch text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.wake_for_dead_executor()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  PERFORM wake_action_tasks(a.id) FROM action a WHERE a.worker_id = NEW.id AND a.state IN ('in_flight', 'rolling_back') ORDER BY a.id;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION madrugada.wake_task(the_task bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION madrugada.withdraw_actions(the_batch text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'madrugada', 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

-- Views

CREATE VIEW madrugada.audit_action_passages AS
 SELECT e.batch_key,
    (((a.batch_id || ':'::text) || a.item) || substr(a.batch_key, (length(a.batch_id) + 1))) AS key,
    e.action_id,
    a.name,
    e.id AS event_id,
    e.at,
    e.event,
    e.from_state,
    e.to_state,
        CASE
            WHEN (e.by_name IS NOT NULL) THEN e.by_name
            WHEN (e.event = 'proposed'::text) THEN a.proposed_by
            WHEN ((e.event = 'expired'::text) OR (e.worker_id IS NULL)) THEN 'madrugada'::text
            ELSE concat_ws(' in slot '::text, ('worker '::text || e.worker_id), ( SELECT p.slot
               FROM madrugada.attempt p
              WHERE ((p.task_id = e.task_id) AND (p.number = e.lease_token) AND (p.worker_id = e.worker_id))))
        END AS actor,
    e.reason,
    e.session_user_name,
    e.os_user,
    e.client_addr
   FROM (madrugada.audit_event e
     JOIN madrugada.action a ON ((a.id = e.action_id)))
  WHERE (e.action_id IS NOT NULL);

CREATE VIEW madrugada.audit_batch_totals AS
 SELECT b.batch_key,
    b.state,
    b.task_count AS tasks,
    t.completed,
    t.failed,
    j.calls,
    j.charged,
    r.refused,
    r.not_sent,
    d.in_doubt,
    j.journal_usd,
    j.unpriced,
    l.bill_charges,
    l.bill_usd,
    l.other_batches,
    ( SELECT count(*) AS count
           FROM madrugada.bill x
          WHERE (x.batch_key = b.batch_key)) AS bills
   FROM (((((madrugada.batch b
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (t_1.state = 'completed'::madrugada.task_state)) AS completed,
            count(*) FILTER (WHERE (t_1.state = 'failed'::madrugada.task_state)) AS failed
           FROM madrugada.task t_1
          WHERE (t_1.batch_key = b.batch_key)) t)
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE j_1.answers) AS calls,
            count(*) AS charged,
            COALESCE(sum(j_1.cost_usd), (0)::numeric) AS journal_usd,
            count(*) FILTER (WHERE (j_1.cost_usd IS NULL)) AS unpriced
           FROM madrugada.audit_journal_charges j_1
          WHERE (j_1.batch_key = b.batch_key)) j)
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (o.kind = 'refused'::madrugada.outcome_kind)) AS refused,
            count(*) FILTER (WHERE (o.kind = 'not_sent'::madrugada.outcome_kind)) AS not_sent
           FROM madrugada.call_outcome o
          WHERE (o.batch_key = b.batch_key)) r)
     CROSS JOIN LATERAL ( SELECT count(*) AS in_doubt
           FROM madrugada.audit_in_doubt d_1
          WHERE (d_1.batch_key = b.batch_key)) d)
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (c.other_batch IS NULL)) AS bill_charges,
            sum(c.cost_usd) FILTER (WHERE (c.other_batch IS NULL)) AS bill_usd,
            count(c.other_batch) AS other_batches
           FROM madrugada.audit_charges c
          WHERE (c.batch_key = b.batch_key)) l);

CREATE VIEW madrugada.audit_bill_lines AS
 SELECT b.batch_key,
    l.bill_id,
    l.line_no,
    l.provider_request_id,
    l.message_id,
    l.tag,
    l.at,
    l.model,
    l.cost_usd
   FROM (madrugada.bill_line l
     JOIN madrugada.bill b ON ((b.id = l.bill_id)))
  WHERE (NOT (EXISTS ( SELECT
           FROM madrugada.bill longer
          WHERE (longer.continues = b.id))));

CREATE VIEW madrugada.audit_budget AS
 SELECT b.batch_key,
    b.budget_usd,
    s.drawn_usd,
    m.spent_usd,
    m.held_usd,
    m.allowances_usd,
    m.wrong_attempts,
    ((s.drawn_usd <= COALESCE(b.budget_usd, 'Infinity'::numeric)) AND (s.drawn_usd = m.allowances_usd) AND (m.wrong_attempts = 0)) AS holds
   FROM ((madrugada.batch b
     JOIN madrugada.batch_spending s ON ((s.batch_key = b.batch_key)))
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(a.allowance_usd), (0)::numeric) AS allowances_usd,
            COALESCE(sum(j.spent), (0)::numeric) AS spent_usd,
            COALESCE(sum(j.held), (0)::numeric) AS held_usd,
            count(*) FILTER (WHERE ((a.allowance_usd IS NOT NULL) AND
                CASE
                    WHEN (a.ended_at IS NULL) THEN ((j.spent + j.held) > a.allowance_usd)
                    ELSE ((a.allowance_usd IS DISTINCT FROM (j.spent + j.held)) OR (a.held_usd IS DISTINCT FROM j.held))
                END)) AS wrong_attempts
           FROM ((madrugada.task t
             JOIN madrugada.attempt a ON ((a.task_id = t.id)))
             CROSS JOIN LATERAL madrugada.attempt_money(t.id, a.number) j(spent, held))
          WHERE (t.batch_key = b.batch_key)) m);

CREATE VIEW madrugada.audit_charges AS
 SELECT l.batch_key,
    l.bill_id,
    l.line_no,
    l.provider_request_id,
    l.message_id,
    l.tag,
    l.at,
    l.model,
    l.cost_usd,
    COALESCE(i.task_id, o.task_id) AS task_id,
    COALESCE(i.seq, o.seq) AS seq,
    COALESCE(i.dispatch, o.dispatch) AS dispatch,
    other.batch_key AS other_batch
   FROM (((madrugada.audit_bill_lines l
     LEFT JOIN LATERAL ( SELECT i_1.task_id,
            i_1.seq,
            i_1.dispatch
           FROM madrugada.call_intent i_1
          WHERE ((i_1.batch_key = l.batch_key) AND (i_1.tag = l.tag))
         LIMIT 1) i ON (true))
     LEFT JOIN LATERAL ( SELECT o_1.task_id,
            o_1.seq,
            o_1.dispatch
           FROM madrugada.call_outcome o_1
          WHERE ((o_1.batch_key = l.batch_key) AND (o_1.provider_request_id = l.provider_request_id) AND (i.task_id IS NULL))
          ORDER BY o_1.task_id, o_1.seq, o_1.dispatch
         LIMIT 1) o ON (true))
     LEFT JOIN LATERAL ( SELECT x.batch_key
           FROM madrugada.call_intent x
          WHERE ((x.tag = l.tag) AND (x.batch_key <> l.batch_key) AND (i.task_id IS NULL) AND (o.task_id IS NULL))
         LIMIT 1) other ON (true));

CREATE VIEW madrugada.audit_duplicate_charges AS
 SELECT c.batch_key,
    t.key,
    c.task_id,
    c.seq,
    count(*) AS charges,
    (sum(c.cost_usd) - max(c.cost_usd)) AS paid_twice_usd,
    array_agg(DISTINCT c.dispatch) AS dispatches,
    ((EXISTS ( SELECT
           FROM madrugada.audit_in_doubt d
          WHERE ((d.batch_key = c.batch_key) AND (d.task_id = c.task_id) AND (d.seq = c.seq)))) OR (EXISTS ( SELECT
           FROM madrugada.settlement s
          WHERE ((s.batch_key = c.batch_key) AND (s.task_id = c.task_id) AND (s.seq = c.seq)))) OR ( SELECT (count(*) > 1)
           FROM madrugada.audit_journal_charges j
          WHERE ((j.batch_key = c.batch_key) AND (j.task_id = c.task_id) AND (j.seq = c.seq)))) AS named_in_doubt
   FROM (madrugada.audit_charges c
     JOIN madrugada.task t ON ((t.id = c.task_id)))
  GROUP BY c.batch_key, t.key, c.task_id, c.seq
 HAVING (count(*) > 1);

CREATE VIEW madrugada.audit_exposure AS
 SELECT b.batch_key,
    count(DISTINCT ROW(x.task_id, x.seq)) FILTER (WHERE (x.task_id IS NOT NULL)) AS calls,
    count(x.task_id) AS dispatches,
    COALESCE(sum(x.worst_case_usd), (0)::numeric) AS usd,
    count(x.task_id) FILTER (WHERE (x.worst_case_usd IS NULL)) AS unbounded
   FROM (madrugada.batch b
     LEFT JOIN LATERAL ( SELECT d.task_id,
            d.seq,
            d.worst_case_usd,
            ((row_number() OVER (PARTITION BY d.task_id, d.seq ORDER BY d.worst_case_usd) > 1) OR (EXISTS ( SELECT
                   FROM madrugada.audit_journal_charges j
                  WHERE ((j.batch_key = d.batch_key) AND (j.task_id = d.task_id) AND (j.seq = d.seq)))) OR (EXISTS ( SELECT
                   FROM madrugada.pay_again p
                  WHERE ((p.task_id = d.task_id) AND ((d.seq >= p.from_seq) AND (d.seq <= p.to_seq)))))) AS is_extra
           FROM madrugada.audit_in_doubt d
          WHERE (d.batch_key = b.batch_key)) x ON (x.is_extra))
  GROUP BY b.batch_key;

CREATE VIEW madrugada.audit_in_doubt AS
 SELECT i.batch_key,
    t.key,
    i.task_id,
    i.seq,
    i.dispatch,
    i.model,
    i.slot,
    i.worker_id,
    i.sent_at,
    i.deadline_at,
        CASE
            WHEN (w.ended_at IS NULL) THEN (i.deadline_at + '00:00:30'::interval)
            ELSE w.ended_at
        END AS waiting_until,
    i.worst_case_usd,
    u.error,
    i.tag,
    ((EXISTS ( SELECT
           FROM madrugada.audit_bill_lines l
          WHERE ((l.batch_key = i.batch_key) AND (l.tag = i.tag)))) OR (EXISTS ( SELECT
           FROM madrugada.audit_bill_lines l
          WHERE ((l.batch_key = i.batch_key) AND (l.provider_request_id = u.provider_request_id))))) AS billed,
    ((u.batch_key IS NULL) AND (w.ended_at IS NULL) AND ((i.deadline_at + '00:00:30'::interval) >= madrugada.now())) AS sender_at_work
   FROM (((madrugada.call_intent i
     JOIN madrugada.task t ON ((t.id = i.task_id)))
     LEFT JOIN madrugada.worker w ON ((w.id = i.worker_id)))
     LEFT JOIN madrugada.call_outcome u ON (((u.batch_key = i.batch_key) AND (u.task_id = i.task_id) AND (u.seq = i.seq) AND (u.dispatch = i.dispatch) AND (u.kind = 'unknown'::madrugada.outcome_kind))))
  WHERE ((NOT (EXISTS ( SELECT
           FROM madrugada.call_outcome o
          WHERE ((o.batch_key = i.batch_key) AND (o.task_id = i.task_id) AND (o.seq = i.seq) AND (o.dispatch = i.dispatch) AND madrugada.settles(o.kind))
         OFFSET 0))) AND (NOT (EXISTS ( SELECT
           FROM madrugada.settlement s
          WHERE ((s.batch_key = i.batch_key) AND (s.task_id = i.task_id) AND (s.seq = i.seq) AND (s.dispatch = i.dispatch))
         OFFSET 0))));

CREATE VIEW madrugada.audit_journal_charges AS
 SELECT o.batch_key,
    o.task_id,
    o.seq,
    o.dispatch,
    o.kind,
    (o.answers OR COALESCE(( SELECT r.answers
           FROM madrugada.call_outcome r
          WHERE ((r.batch_key = o.batch_key) AND (r.task_id = o.task_id) AND (r.seq = o.seq) AND (r.dispatch = o.dispatch) AND (r.kind = 'recovered'::madrugada.outcome_kind))), false)) AS answers,
    o.provider_request_id,
    o.message_id,
    o.cost_usd,
    o.received_at
   FROM madrugada.call_outcome o
  WHERE ((o.kind = 'charged'::madrugada.outcome_kind) OR ((o.kind = 'recovered'::madrugada.outcome_kind) AND (NOT (EXISTS ( SELECT
           FROM madrugada.call_outcome c
          WHERE ((c.batch_key = o.batch_key) AND (c.task_id = o.task_id) AND (c.seq = o.seq) AND (c.dispatch = o.dispatch) AND (c.kind = 'charged'::madrugada.outcome_kind)))))))
UNION ALL
 SELECT s.batch_key,
    s.task_id,
    s.seq,
    s.dispatch,
    NULL::madrugada.outcome_kind AS kind,
    false AS answers,
    u.provider_request_id,
    u.message_id,
    s.cost_usd,
    s.settled_at AS received_at
   FROM (madrugada.settlement s
     LEFT JOIN madrugada.call_outcome u ON (((u.batch_key = s.batch_key) AND (u.task_id = s.task_id) AND (u.seq = s.seq) AND (u.dispatch = s.dispatch) AND (u.kind = 'unknown'::madrugada.outcome_kind))))
  WHERE ((s.verdict = 'charged'::madrugada.settlement_verdict) AND (NOT (EXISTS ( SELECT
           FROM madrugada.call_outcome o
          WHERE ((o.batch_key = s.batch_key) AND (o.task_id = s.task_id) AND (o.seq = s.seq) AND (o.dispatch = s.dispatch) AND madrugada.settles(o.kind))))));

CREATE VIEW madrugada.audit_settled_doubts AS
 SELECT s.batch_key,
    t.key,
    s.task_id,
    s.seq,
    s.dispatch,
    i.model,
    i.sent_at,
    i.worst_case_usd,
    s.verdict,
    s.cost_usd,
    s.pay_again,
    s.bill_id,
    s.reason,
    s.settled_by,
    s.settled_at,
    ( SELECT max(o.kind) AS max
           FROM madrugada.call_outcome o
          WHERE ((o.batch_key = s.batch_key) AND (o.task_id = s.task_id) AND (o.seq = s.seq) AND (o.dispatch = s.dispatch) AND madrugada.settles(o.kind))) AS later_outcome
   FROM ((madrugada.settlement s
     LEFT JOIN madrugada.task t ON ((t.id = s.task_id)))
     LEFT JOIN madrugada.call_intent i ON (((i.batch_key = s.batch_key) AND (i.task_id = s.task_id) AND (i.seq = s.seq) AND (i.dispatch = s.dispatch))));

CREATE VIEW madrugada.audit_task_charges AS
 SELECT t.batch_key,
    t.key,
    t.item,
    t."position",
    t.state,
    ( SELECT count(*) AS count
           FROM madrugada.attempt a
          WHERE (a.task_id = t.id)) AS attempts,
    COALESCE(j.calls, (0)::bigint) AS calls,
    COALESCE(j.charged, (0)::bigint) AS charged,
    COALESCE(j.journal_usd, (0)::numeric) AS journal_usd,
    c.charges AS bill_charges,
    c.bill_usd
   FROM ((madrugada.task t
     LEFT JOIN ( SELECT audit_journal_charges.batch_key,
            audit_journal_charges.task_id,
            count(*) FILTER (WHERE audit_journal_charges.answers) AS calls,
            count(*) AS charged,
            sum(audit_journal_charges.cost_usd) AS journal_usd
           FROM madrugada.audit_journal_charges
          GROUP BY audit_journal_charges.batch_key, audit_journal_charges.task_id) j ON (((j.batch_key = t.batch_key) AND (j.task_id = t.id))))
     LEFT JOIN ( SELECT audit_charges.batch_key,
            audit_charges.task_id,
            count(*) AS charges,
            sum(audit_charges.cost_usd) AS bill_usd
           FROM madrugada.audit_charges
          GROUP BY audit_charges.batch_key, audit_charges.task_id) c ON (((c.batch_key = t.batch_key) AND (c.task_id = t.id))));

CREATE VIEW madrugada.audit_unmatched AS
 SELECT c.batch_key,
        CASE
            WHEN (c.task_id IS NULL) THEN 'charged, but not in the journal'::text
            WHEN (j.task_id IS NOT NULL) THEN 'amount differs'::text
            WHEN (EXISTS ( SELECT
               FROM madrugada.call_outcome o
              WHERE ((o.batch_key = c.batch_key) AND (o.task_id = c.task_id) AND (o.seq = c.seq) AND (o.dispatch = c.dispatch) AND madrugada.settles(o.kind)))) THEN 'charged, but refused or not sent by the journal'::text
            WHEN (EXISTS ( SELECT
               FROM madrugada.settlement s
              WHERE ((s.batch_key = c.batch_key) AND (s.task_id = c.task_id) AND (s.seq = c.seq) AND (s.dispatch = c.dispatch)))) THEN 'charged, but settled as not charged'::text
            ELSE 'charged, but the journal has no answer: in doubt'::text
        END AS difference,
    t.key,
    c.task_id,
    c.seq,
    c.dispatch,
    c.bill_id,
    c.line_no,
    c.provider_request_id,
    c.cost_usd AS bill_usd,
    j.cost_usd AS journal_usd
   FROM ((madrugada.audit_charges c
     LEFT JOIN madrugada.task t ON ((t.id = c.task_id)))
     LEFT JOIN LATERAL ( SELECT j_1.task_id,
            j_1.cost_usd
           FROM madrugada.audit_journal_charges j_1
          WHERE ((j_1.batch_key = c.batch_key) AND (j_1.task_id = c.task_id) AND (j_1.seq = c.seq) AND (j_1.dispatch = c.dispatch))
         OFFSET 0) j ON (true))
  WHERE ((c.other_batch IS NULL) AND ((j.task_id IS NULL) OR (j.cost_usd IS DISTINCT FROM c.cost_usd)))
UNION ALL
 SELECT j.batch_key,
        CASE
            WHEN (j.kind IS NULL) THEN 'settled as charged, but not on the bill'::text
            ELSE 'in the journal, but not on the bill'::text
        END AS difference,
    t.key,
    j.task_id,
    j.seq,
    j.dispatch,
    NULL::bigint AS bill_id,
    NULL::integer AS line_no,
    j.provider_request_id,
    NULL::numeric AS bill_usd,
    j.cost_usd AS journal_usd
   FROM ((madrugada.audit_journal_charges j
     JOIN madrugada.task t ON ((t.id = j.task_id)))
     JOIN madrugada.call_intent i ON (((i.batch_key = j.batch_key) AND (i.task_id = j.task_id) AND (i.seq = j.seq) AND (i.dispatch = j.dispatch))))
  WHERE ((COALESCE(j.cost_usd, (1)::numeric) > (0)::numeric) AND (EXISTS ( SELECT
           FROM madrugada.bill b
          WHERE (b.batch_key = j.batch_key))) AND (NOT (EXISTS ( SELECT
           FROM madrugada.audit_bill_lines l
          WHERE ((l.batch_key = j.batch_key) AND (l.tag = i.tag))))) AND (NOT (EXISTS ( SELECT
           FROM madrugada.audit_bill_lines l
          WHERE ((l.batch_key = j.batch_key) AND (l.provider_request_id = j.provider_request_id))))));

CREATE VIEW madrugada.call AS
 SELECT i.batch_key,
    i.task_id,
    t.key,
    i.seq,
    i.dispatch,
    i.scope,
    i.occurrence,
    i.attempt,
    i.slot,
    i.method,
    i.path,
    i.model,
    i.tag,
    o.kind,
    COALESCE(madrugada.settles(o.kind), false) AS settled,
    COALESCE(o.answers, false) AS answers,
    o.status,
    o.error,
    o.provider_request_id,
    o.message_id,
    o.input_tokens,
    o.output_tokens,
    o.cache_read_tokens,
    o.cache_write_5m_tokens,
    o.cache_write_1h_tokens,
    o.cost_usd,
    i.sent_at,
    i.deadline_at,
    o.received_at,
    o.completed_no,
    i.request_sha256,
    madrugada.body_text(i.request) AS request,
    madrugada.body_text(o.response) AS response,
    COALESCE(i.asked_model, i.model) AS asked_model
   FROM ((madrugada.call_intent i
     JOIN madrugada.task t ON ((t.id = i.task_id)))
     LEFT JOIN LATERAL ( SELECT o_1.batch_key,
            o_1.task_id,
            o_1.seq,
            o_1.dispatch,
            o_1.kind,
            o_1.status,
            o_1.error,
            o_1.shown,
            o_1.provider_request_id,
            o_1.message_id,
            o_1.response_headers,
            o_1.response,
            o_1.input_tokens,
            o_1.output_tokens,
            o_1.cache_read_tokens,
            o_1.cache_write_5m_tokens,
            o_1.cache_write_1h_tokens,
            o_1.cost_usd,
            o_1.answers,
            o_1.completed_no,
            o_1.received_at
           FROM madrugada.call_outcome o_1
          WHERE ((o_1.batch_key = i.batch_key) AND (o_1.task_id = i.task_id) AND (o_1.seq = i.seq) AND (o_1.dispatch = i.dispatch))
          ORDER BY (array_position('{charged,recovered,refused,not_sent,unknown}'::madrugada.outcome_kind[], o_1.kind))
         LIMIT 1) o ON (true));

-- Triggers

CREATE CONSTRAINT TRIGGER attempt_failures AFTER UPDATE ON madrugada.attempt DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.ending IS NULL) AND (new.ending = ANY (ARRAY['completed'::madrugada.attempt_ending, 'failed'::madrugada.attempt_ending])))) EXECUTE FUNCTION madrugada.count_failures();
CREATE CONSTRAINT TRIGGER batch_task_count AFTER INSERT ON madrugada.batch DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_count();
CREATE CONSTRAINT TRIGGER task_last AFTER UPDATE ON madrugada.task DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) AND (new.state = ANY (ARRAY['completed'::madrugada.task_state, 'failed'::madrugada.task_state])))) EXECUTE FUNCTION madrugada.tell_of_failed_tasks();
CREATE CONSTRAINT TRIGGER worker_end_actions AFTER UPDATE ON madrugada.worker DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.ended_at IS NULL) AND (new.ended_at IS NOT NULL))) EXECUTE FUNCTION madrugada.wake_for_dead_executor();
CREATE TRIGGER action_guard BEFORE INSERT OR DELETE OR UPDATE ON madrugada.action FOR EACH ROW EXECUTE FUNCTION madrugada.guard_action();
CREATE TRIGGER action_insert_audit AFTER INSERT ON madrugada.action FOR EACH ROW EXECUTE FUNCTION madrugada.audit_action();
CREATE TRIGGER action_state_audit AFTER UPDATE ON madrugada.action FOR EACH ROW WHEN (((old.state <> new.state) OR (old.execution <> new.execution) OR (old.undo <> new.undo))) EXECUTE FUNCTION madrugada.audit_action();
CREATE TRIGGER alert_audit AFTER INSERT OR UPDATE ON madrugada.alert FOR EACH ROW EXECUTE FUNCTION madrugada.audit_alert();
CREATE TRIGGER audit_update_refused BEFORE UPDATE ON madrugada.audit_event FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER batch_fall_back_audit AFTER INSERT ON madrugada.batch FOR EACH ROW WHEN ((new.fall_back_model IS NOT NULL)) EXECUTE FUNCTION madrugada.audit_fall_back();
CREATE TRIGGER batch_insert_audit AFTER INSERT ON madrugada.batch FOR EACH ROW EXECUTE FUNCTION madrugada.audit_batch_state();
CREATE TRIGGER batch_spending_begun AFTER INSERT ON madrugada.batch FOR EACH ROW EXECUTE FUNCTION madrugada.begin_spending();
CREATE TRIGGER batch_state_audit AFTER UPDATE ON madrugada.batch FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION madrugada.audit_batch_state();
CREATE TRIGGER batch_state_guard BEFORE UPDATE ON madrugada.batch FOR EACH ROW EXECUTE FUNCTION madrugada.guard_batch_state();
CREATE TRIGGER bill_audit AFTER INSERT ON madrugada.bill FOR EACH ROW EXECUTE FUNCTION madrugada.audit_bill();
CREATE TRIGGER decision_append_only BEFORE DELETE OR UPDATE ON madrugada.action_decision FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER intent_append_only BEFORE DELETE OR UPDATE ON madrugada.call_intent FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER intent_fence BEFORE INSERT ON madrugada.call_intent FOR EACH ROW EXECUTE FUNCTION madrugada.fence_intent();
CREATE TRIGGER model_price_change_audit AFTER DELETE OR UPDATE ON madrugada.model_price FOR EACH ROW EXECUTE FUNCTION madrugada.audit_model_price();
CREATE TRIGGER model_price_guard BEFORE INSERT OR DELETE OR UPDATE ON madrugada.model_price FOR EACH ROW EXECUTE FUNCTION madrugada.guard_model_price();
CREATE TRIGGER model_price_insert_audit AFTER INSERT ON madrugada.model_price FOR EACH ROW WHEN ((new.source <> 'built in'::text)) EXECUTE FUNCTION madrugada.audit_model_price();
CREATE TRIGGER outcome_answer BEFORE INSERT ON madrugada.call_outcome FOR EACH ROW EXECUTE FUNCTION madrugada.choose_answer();
CREATE TRIGGER outcome_append_only BEFORE DELETE OR UPDATE ON madrugada.call_outcome FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER rehearsal_append_only BEFORE DELETE OR UPDATE ON madrugada.rehearsal FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER settlement_append_only BEFORE DELETE OR UPDATE ON madrugada.settlement FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER settlement_audit AFTER INSERT ON madrugada.settlement FOR EACH ROW EXECUTE FUNCTION madrugada.audit_settlement();
CREATE TRIGGER step_append_only BEFORE DELETE OR UPDATE ON madrugada.step_record FOR EACH ROW EXECUTE FUNCTION madrugada.refuse_change();
CREATE TRIGGER step_fence BEFORE INSERT ON madrugada.step_record FOR EACH ROW EXECUTE FUNCTION madrugada.fence_step();
CREATE TRIGGER stop_insert_audit AFTER INSERT ON madrugada.stop_switch FOR EACH ROW EXECUTE FUNCTION madrugada.audit_stop();
CREATE TRIGGER stop_lift_audit AFTER UPDATE ON madrugada.stop_switch FOR EACH ROW WHEN (((old.lifted_at IS NULL) AND (new.lifted_at IS NOT NULL))) EXECUTE FUNCTION madrugada.audit_stop();
CREATE TRIGGER task_closed_list AFTER INSERT ON madrugada.task REFERENCING NEW TABLE AS new_tasks FOR EACH STATEMENT EXECUTE FUNCTION madrugada.guard_closed_list();
CREATE TRIGGER task_delete_guard BEFORE DELETE ON madrugada.task FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_delete();
CREATE TRIGGER task_retried AFTER UPDATE ON madrugada.task FOR EACH ROW WHEN (((old.state = 'failed'::madrugada.task_state) AND (new.state = 'pending'::madrugada.task_state))) EXECUTE FUNCTION madrugada.acknowledge_failed_tasks();
CREATE TRIGGER task_retry_actions AFTER UPDATE ON madrugada.task FOR EACH ROW WHEN (((old.state = 'failed'::madrugada.task_state) AND (new.state = 'pending'::madrugada.task_state))) EXECUTE FUNCTION madrugada.reopen_actions();
CREATE TRIGGER task_state_audit AFTER UPDATE ON madrugada.task FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION madrugada.audit_task_state();
CREATE TRIGGER task_state_guard BEFORE UPDATE ON madrugada.task FOR EACH ROW EXECUTE FUNCTION madrugada.guard_task_state();
CREATE TRIGGER worker_end_audit AFTER UPDATE ON madrugada.worker FOR EACH ROW WHEN (((old.ended_at IS NULL) AND (new.ended_at IS NOT NULL))) EXECUTE FUNCTION madrugada.audit_worker();
CREATE TRIGGER worker_start_audit AFTER INSERT ON madrugada.worker FOR EACH ROW EXECUTE FUNCTION madrugada.audit_worker();

-- Owners other than the owner of the schema

ALTER SCHEMA madrugada OWNER TO madrugada_owner;

-- Rights of others than the owner

GRANT DELETE, INSERT, SELECT, UPDATE ON TABLE madrugada.model_price TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.abort_action(bigint,bigint,bigint,bigint,text) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.acknowledge_alert(bigint,text) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.action_challenge(madrugada.action) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.action_content(text,text,text,jsonb) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.action_digest(madrugada.action) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.allow_unrehearsed(text) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.attempt_money(bigint,bigint) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.batch_named(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.begin_execution(bigint,bigint,bigint,bigint,integer,jsonb,bigint) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.begin_undo(bigint,bigint,bigint,bigint,integer,integer,jsonb,bigint,text) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.body_text(bytea) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.calling_role() TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.check_server_identity() TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.claim_delivery(text[]) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.claim_task(text,text,bigint,text,integer) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.close_batch(text,boolean) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.complete_task(bigint,bigint,bigint,jsonb,integer) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.complete_tasks(bigint[],bigint[],bigint[],jsonb[],integer[],boolean) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.conclude_action(bigint,bigint,bigint,bigint,integer,integer,madrugada.action_state,jsonb,boolean,text) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.confirm_server_identity() TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.cut_off(text) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.decide_action(bigint,text,text,text,text[]) TO madrugada_approver, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.draw_allowances(bigint[],bigint[],bigint[],numeric[],numeric[],boolean) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.end_attempt(bigint,bigint,bigint,madrugada.attempt_ending,jsonb,boolean,timestamp with time zone,text,integer,numeric) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.end_worker(bigint,text) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.executor_at_work(madrugada.action) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.executor_gone_at(madrugada.action) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.give_up_execution(bigint,bigint) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.has_limits(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.heartbeat(bigint,bigint[],bigint[],boolean[]) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.is_paced(madrugada.provider_pace) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.is_rehearsed(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.is_stopped() TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.is_without_effect(madrugada.action_state) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.journal_cost(text,bigint) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.leave_worker(bigint,text) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.lift_stop() TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.load_batch(text,text,text,jsonb,text,integer,numeric,integer,integer,madrugada.doubt_policy,jsonb) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.may_pay_again(madrugada.call_intent,madrugada.doubt_policy) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.month_of(timestamp with time zone) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.next_claimable_at(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.note_pace(text,text,double precision,jsonb,bigint,bigint,bigint,bigint,bigint,boolean) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.note_spending(text,bigint,numeric,numeric) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.now() TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.propose_action(bigint,bigint,bigint,integer,jsonb) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.record_delivery(bigint,text,text) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.record_effect(bigint,bigint,integer,jsonb) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.record_rehearsal(text,text,text,jsonb) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.register_worker(text,text,integer,bigint) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.release_silent_workers() TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.release_unknown_claims(text,bigint,bigint[]) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.resume_batch(text) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.retry_task(bigint,integer) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.said(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.sender_at_work(madrugada.call_intent) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.server_is_known() TO madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.set_batch_limits(text,numeric,numeric,numeric) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.set_month_limit(date,numeric) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.settle_action(bigint,madrugada.action_state) TO madrugada_approver, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.settle_doubt(text,bigint,integer,integer,madrugada.settlement_verdict,numeric,boolean,bigint) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.settles(madrugada.outcome_kind) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.sha256_hex(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.slot_is_locked_by(text,bigint) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.slot_lock_class() TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.slot_lock_key(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.spent_lately(text) TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.stop_automatically(text,text,text) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.stop_batch(text,text) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.stop_everything(text) TO madrugada_operator;
GRANT EXECUTE ON FUNCTION madrugada.sweep_expired_leases(timestamp with time zone) TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.take_turn(text,text,bigint,bigint,double precision) TO madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.tend_actions() TO madrugada_approver, madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.tend_budgets() TO madrugada_operator, madrugada_worker;
GRANT EXECUTE ON FUNCTION madrugada.wake_task(bigint) TO madrugada_operator, madrugada_worker;
GRANT INSERT, SELECT ON TABLE madrugada.bill TO madrugada_operator;
GRANT INSERT, SELECT ON TABLE madrugada.bill_line TO madrugada_operator;
GRANT INSERT, SELECT ON TABLE madrugada.call_intent TO madrugada_worker;
GRANT INSERT, SELECT ON TABLE madrugada.call_outcome TO madrugada_worker;
GRANT INSERT, SELECT ON TABLE madrugada.incoming_task TO madrugada_operator;
GRANT INSERT, SELECT ON TABLE madrugada.step_record TO madrugada_worker;
GRANT SELECT ON TABLE madrugada.action TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.action_decision TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.action_use TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.alert TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.alert_delivery TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.attempt TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_action_passages TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_batch_totals TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_bill_lines TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_budget TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_charges TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_duplicate_charges TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_event TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_exposure TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_in_doubt TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_journal_charges TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_settled_doubts TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_task_charges TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.audit_unmatched TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.batch TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.batch_spending TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.bill TO madrugada_approver, madrugada_auditor, madrugada_worker;
GRANT SELECT ON TABLE madrugada.bill_line TO madrugada_approver, madrugada_auditor, madrugada_worker;
GRANT SELECT ON TABLE madrugada.call TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.call_intent TO madrugada_approver, madrugada_auditor, madrugada_operator;
GRANT SELECT ON TABLE madrugada.call_outcome TO madrugada_approver, madrugada_auditor, madrugada_operator;
GRANT SELECT ON TABLE madrugada.failure_streak TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.incoming_task TO madrugada_approver, madrugada_auditor, madrugada_worker;
GRANT SELECT ON TABLE madrugada.model_price TO madrugada_approver, madrugada_auditor, madrugada_worker;
GRANT SELECT ON TABLE madrugada.month_spending TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.pay_again TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.provider_pace TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.rehearsal TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.schema_migration TO PUBLIC, madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.server_identity TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.settlement TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.spending_minute TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.step_record TO madrugada_approver, madrugada_auditor, madrugada_operator;
GRANT SELECT ON TABLE madrugada.stop_switch TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.task TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT ON TABLE madrugada.worker TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
GRANT SELECT, USAGE ON SEQUENCE madrugada.journal_no TO madrugada_worker;
GRANT USAGE ON SCHEMA madrugada TO madrugada_approver, madrugada_auditor, madrugada_operator, madrugada_worker;
