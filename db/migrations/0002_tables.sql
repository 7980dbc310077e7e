-- The life of a row: a batch is loaded with all its tasks in one transaction; a slot claims a task (attempt); each model call of
-- the attempt writes an intent before it is sent and an outcome after; the answer completes the task; the audit trail keeps each passage.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE TYPE madrugada.batch_state AS ENUM ('open', 'stopped', 'closed', 'archived');
CREATE TYPE madrugada.task_state AS ENUM ('pending', 'running', 'completed', 'failed');
CREATE TYPE madrugada.attempt_ending AS ENUM ('completed', 'failed', 'lost', 'released', 'parked', 'stopped');
CREATE TYPE madrugada.outcome_kind AS ENUM ('charged', 'refused', 'not_sent', 'unknown', 'recovered');
CREATE TYPE madrugada.doubt_policy AS ENUM ('pay_again', 'hold');
CREATE TYPE madrugada.step_kind AS ENUM ('step', 'now', 'random', 'sleep', 'timeout', 'abort');

CREATE TABLE madrugada.batch (
  number        integer GENERATED ALWAYS AS IDENTITY UNIQUE,       -- names the batch's partitions
  id            text NOT NULL CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  version       text NOT NULL CHECK (version ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  batch_key     text GENERATED ALWAYS AS (id || ':' || version) STORED UNIQUE, -- neither part may hold ':', so no two keys collide
  agent         text NOT NULL,
  agent_options jsonb NOT NULL DEFAULT '{}',
  state         madrugada.batch_state NOT NULL DEFAULT 'open',
  stop_reason   text,
  tasks_sha256  text NOT NULL,
  task_count    integer NOT NULL CHECK (task_count > 0),
  budget_usd    numeric CHECK (budget_usd > 0),
  max_attempts  integer NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
  max_losses    integer NOT NULL DEFAULT 20 CHECK (max_losses > 0),
  lease_seconds integer NOT NULL DEFAULT 600 CHECK (lease_seconds > 0),
  doubt_policy  madrugada.doubt_policy NOT NULL DEFAULT 'pay_again',
  loaded_in     xid8 NOT NULL DEFAULT pg_current_xact_id(),          -- the one transaction that may add tasks (invariant 8)
  created_at    timestamptz NOT NULL DEFAULT madrugada.now(),
  closed_at     timestamptz,
  archived_at   timestamptz,
  PRIMARY KEY (id, version),
  CHECK ((state = 'stopped') = (stop_reason IS NOT NULL)),
  CHECK (state NOT IN ('closed', 'archived') OR closed_at IS NOT NULL)
);

-- A person's stop of everything; in force while it has no lifted_at. The partial index lets at most one be in force.
CREATE TABLE madrugada.stop_switch (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stopped_at timestamptz NOT NULL DEFAULT madrugada.now(),
  reason     text NOT NULL,
  lifted_at  timestamptz
);
CREATE UNIQUE INDEX stop_switch_in_force ON madrugada.stop_switch ((true)) WHERE lifted_at IS NULL;

CREATE TABLE madrugada.worker (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  host           text NOT NULL,                                      -- machine id and pid namespace: who may judge its pid (rule R7)
  boot_id        text NOT NULL,
  pid            integer NOT NULL,
  pid_started_at bigint NOT NULL,                                    -- kernel ticks since boot: tells a reused pid apart
  started_at     timestamptz NOT NULL DEFAULT madrugada.now(),
  heartbeat_at   timestamptz NOT NULL DEFAULT madrugada.now(),
  ended_at       timestamptz,                                        -- set only with proof: it said so itself, or its death was proven
  ended_how      text,
  CHECK ((ended_at IS NULL) = (ended_how IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX worker_living ON madrugada.worker (id) WHERE ended_at IS NULL;

CREATE TABLE madrugada.task (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_id         text NOT NULL,
  item             text NOT NULL CHECK (item <> ''),
  version          text NOT NULL,
  batch_key        text GENERATED ALWAYS AS (batch_id || ':' || version) STORED NOT NULL,
  key              text GENERATED ALWAYS AS (batch_id || ':' || item || ':' || version) STORED NOT NULL UNIQUE,
  position         integer NOT NULL CHECK (position > 0),
  input            jsonb NOT NULL,
  state            madrugada.task_state NOT NULL DEFAULT 'pending',
  attempts         integer NOT NULL DEFAULT 0 CHECK (attempts >= 0), -- claims not given back; a person's retry starts again at 0
  losses           integer NOT NULL DEFAULT 0 CHECK (losses >= 0),   -- of those, the ones lost with their process after adding records
  slot             text,
  worker_id        bigint REFERENCES madrugada.worker (id),
  lease_token      bigint NOT NULL DEFAULT 0 CHECK (lease_token >= 0), -- grows with each claim; also the attempt's number
  lease_expires_at timestamptz,
  first_claimed_at timestamptz,
  not_before       timestamptz NOT NULL DEFAULT '-infinity',         -- infinity: only an event, not time, makes it claimable
  waiting_for      text CHECK (waiting_for IN ('doubt', 'settlement', 'refusal')),
  result           jsonb,
  failure          jsonb,
  spent_usd        numeric NOT NULL DEFAULT 0 CHECK (spent_usd >= 0),
  completed_at     timestamptz,
  UNIQUE (batch_key, position),
  FOREIGN KEY (batch_id, version) REFERENCES madrugada.batch (id, version),
  CHECK ((state = 'running') = (slot IS NOT NULL)),
  CHECK ((slot IS NULL) = (worker_id IS NULL) AND (slot IS NULL) = (lease_expires_at IS NULL)),
  CHECK ((state = 'completed') = (result IS NOT NULL) AND (state = 'completed') = (completed_at IS NOT NULL)),
  CHECK ((state = 'failed') = (failure IS NOT NULL)),
  CHECK (state = 'pending' OR waiting_for IS NULL)
);
-- Claiming reads the first of each. Fresh tasks are read from the position where the last claim of the process ended, so that dead
-- entries which an old snapshot keeps alive are not walked again at every claim.
CREATE INDEX task_fresh ON madrugada.task (batch_key, position) WHERE state = 'pending' AND lease_token = 0;
CREATE INDEX task_again ON madrugada.task (batch_key, not_before) WHERE state = 'pending' AND lease_token > 0;
-- The sweep of expired leases, and the tasks of one worker.
CREATE INDEX task_lease ON madrugada.task (lease_expires_at) WHERE state = 'running';
CREATE INDEX task_held ON madrugada.task (worker_id) WHERE state = 'running';

CREATE TABLE madrugada.attempt (
  task_id      bigint NOT NULL REFERENCES madrugada.task (id) ON DELETE CASCADE,
  number       bigint NOT NULL,
  slot         text NOT NULL,
  worker_id    bigint NOT NULL REFERENCES madrugada.worker (id),
  lease_token  bigint NOT NULL,
  agent_sha256 text NOT NULL,
  started_at   timestamptz NOT NULL DEFAULT madrugada.now(),
  ended_at     timestamptz,
  ending       madrugada.attempt_ending,
  replayed     integer,                                              -- calls answered from the journal; NULL while it runs, and when lost
  error        text,
  PRIMARY KEY (task_id, number),
  CHECK ((ended_at IS NULL) = (ending IS NULL))
);

CREATE TABLE madrugada.audit_event (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at           timestamptz NOT NULL DEFAULT madrugada.now(),
  subject      text NOT NULL CHECK (subject IN ('batch', 'task', 'worker', 'stop', 'bill')),
  event        text NOT NULL,
  batch_key    text,
  task_id      bigint,
  from_state   text,
  to_state     text,
  slot         text,
  worker_id    bigint,
  lease_token  bigint,
  reason       text,
  by_name      text,                                                 -- a label a person gave; the next columns are what the database knows
  session_user_name text NOT NULL DEFAULT session_user,
  os_user      text,
  client_addr  inet DEFAULT inet_client_addr()
);
CREATE INDEX audit_event_task ON madrugada.audit_event (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_event_batch ON madrugada.audit_event (batch_key, id);

-- One sequence numbers everything the journal completes: replay releases results in this order (one writer connection per process
-- makes the order of numbers the order of commits within a task).
CREATE SEQUENCE madrugada.journal_no;

CREATE TABLE madrugada.call_intent (
  batch_key      text NOT NULL,
  task_id        bigint NOT NULL,
  seq            integer NOT NULL CHECK (seq > 0),
  dispatch       integer NOT NULL CHECK (dispatch > 0),
  scope          text NOT NULL,
  request_sha256 bytea NOT NULL CHECK (octet_length(request_sha256) = 32),
  occurrence     integer NOT NULL CHECK (occurrence > 0),
  attempt        bigint NOT NULL,
  worker_id      bigint NOT NULL,
  slot           text NOT NULL,
  lease_token    bigint NOT NULL,
  after_no       bigint NOT NULL,                                    -- the last result the code had seen when it issued the call
  method         text NOT NULL,
  path           text NOT NULL,                                      -- with the query string
  model          text,
  request        bytea NOT NULL,
  worst_case_usd numeric,
  tag            text NOT NULL,
  sent_at        timestamptz NOT NULL DEFAULT madrugada.now(),
  deadline_at    timestamptz NOT NULL,
  PRIMARY KEY (batch_key, task_id, seq, dispatch)
) PARTITION BY LIST (batch_key);
-- With the batch in it, because without statistics the planner would else combine it with the whole primary key for every line of a bill.
CREATE INDEX call_intent_tag ON madrugada.call_intent (tag, batch_key);

CREATE TABLE madrugada.call_outcome (
  batch_key            text NOT NULL,
  task_id              bigint NOT NULL,
  seq                  integer NOT NULL,
  dispatch             integer NOT NULL,
  kind                 madrugada.outcome_kind NOT NULL,
  status               integer,
  error                text,                                         -- why, for what is not an answer
  shown                boolean NOT NULL DEFAULT false,               -- a failure that was shown to the code: replayed like an answer
  provider_request_id  text,
  message_id           text,
  response_headers     jsonb,
  response             bytea,
  input_tokens         bigint,
  output_tokens        bigint,
  cache_read_tokens    bigint,
  cache_write_5m_tokens bigint,
  cache_write_1h_tokens bigint,
  cost_usd             numeric CHECK (cost_usd >= 0),
  answers              boolean NOT NULL,
  completed_no         bigint NOT NULL DEFAULT nextval('madrugada.journal_no'),
  received_at          timestamptz NOT NULL DEFAULT madrugada.now(),
  PRIMARY KEY (batch_key, task_id, seq, dispatch, kind),
  CHECK (NOT answers OR kind IN ('charged', 'recovered')),
  CHECK (NOT shown OR kind IN ('refused', 'not_sent', 'unknown'))
) PARTITION BY LIST (batch_key);
-- Exactly one charged outcome answers a call (rule R2); a second one is kept with answers = false.
CREATE UNIQUE INDEX call_outcome_answer ON madrugada.call_outcome (batch_key, task_id, seq) WHERE answers;
CREATE INDEX call_outcome_request_id ON madrugada.call_outcome (provider_request_id, batch_key) WHERE provider_request_id IS NOT NULL;

CREATE TABLE madrugada.step_record (
  batch_key    text NOT NULL,
  task_id      bigint NOT NULL,
  scope        text NOT NULL,
  kind         madrugada.step_kind NOT NULL,
  name         text NOT NULL,
  occurrence   integer NOT NULL CHECK (occurrence > 0),
  attempt      bigint NOT NULL,
  worker_id    bigint NOT NULL,
  lease_token  bigint NOT NULL,
  value        bytea NOT NULL,                                       -- JSON text; bytea because jsonb refuses NUL and rewrites numbers
  completed_no bigint NOT NULL DEFAULT nextval('madrugada.journal_no'),
  recorded_at  timestamptz NOT NULL DEFAULT madrugada.now(),
  PRIMARY KEY (batch_key, task_id, scope, kind, name, occurrence, attempt)
) PARTITION BY LIST (batch_key);

-- A person's order to pay again: recorded calls of these numbers no longer replay, nor do steps completed after the first was issued
-- (values of now and random stay: the calls before were built from them).
CREATE TABLE madrugada.pay_again (
  task_id     bigint NOT NULL REFERENCES madrugada.task (id) ON DELETE CASCADE,
  from_seq    integer NOT NULL CHECK (from_seq > 0),
  to_seq      integer NOT NULL,
  from_no     bigint NOT NULL,
  to_no       bigint NOT NULL,
  ordered_at  timestamptz NOT NULL DEFAULT madrugada.now(),
  PRIMARY KEY (task_id, ordered_at)
);

CREATE TABLE madrugada.model_price (
  model                  text NOT NULL,
  valid_from             date NOT NULL,
  input_usd_per_mtok     numeric NOT NULL CHECK (input_usd_per_mtok >= 0),
  output_usd_per_mtok    numeric NOT NULL CHECK (output_usd_per_mtok >= 0),
  cache_read_usd_per_mtok numeric NOT NULL CHECK (cache_read_usd_per_mtok >= 0),
  cache_write_5m_usd_per_mtok numeric NOT NULL CHECK (cache_write_5m_usd_per_mtok >= 0),
  cache_write_1h_usd_per_mtok numeric NOT NULL CHECK (cache_write_1h_usd_per_mtok >= 0),
  PRIMARY KEY (model, valid_from)
);

-- The provider's own list of charges. No unique key over its lines: a double charge shows twice.
CREATE TABLE madrugada.bill (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_key   text NOT NULL,
  source      text NOT NULL,
  format      text NOT NULL,
  sha256      text NOT NULL,
  byte_count  bigint NOT NULL,
  line_count  integer NOT NULL,
  continues   bigint REFERENCES madrugada.bill (id),                 -- a bill this file begins with, byte for byte: the proofs read the longer one
  imported_at timestamptz NOT NULL DEFAULT madrugada.now(),
  UNIQUE (batch_key, sha256)
);
CREATE TABLE madrugada.bill_line (
  bill_id             bigint NOT NULL REFERENCES madrugada.bill (id) ON DELETE CASCADE,
  line_no             integer NOT NULL,
  provider_request_id text,
  message_id          text,
  tag                 text,
  at                  timestamptz,
  model               text,
  input_tokens        bigint,
  output_tokens       bigint,
  cost_usd            numeric NOT NULL,
  raw                 text NOT NULL,
  PRIMARY KEY (bill_id, line_no)
);
CREATE INDEX bill_line_tag ON madrugada.bill_line (tag) WHERE tag IS NOT NULL;
CREATE INDEX bill_line_request_id ON madrugada.bill_line (provider_request_id) WHERE provider_request_id IS NOT NULL;
