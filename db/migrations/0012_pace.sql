-- A provider's pace, shared by the fleet. It holds from the first refusal on account of load until an hour has passed without one, or without
-- a pause; before and after, no dispatch asks here. Where the provider announced its rate, next_at is the theoretical arrival time of a GCRA bucket without a
-- burst: each turn moves it on by one gap. Where it did not, turns are spread at random over as long again as the pause lasts, and 30 s at most, so that
-- those who waited do not all come back at one instant.
--
-- Tokens have buckets of their own, of a minute's size, as the providers have: of input, of output, and of both together. A bucket is kept as
-- the moment at which it is full again. A turn takes the most its dispatch may use; when that has ended, what it did not use is put back, and
-- the bucket is never fuller than the provider says it is. Only time and the provider's word fill it: a worker that dies leaves nothing to be
-- given back.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE TABLE madrugada.provider_pace (
  origin              text NOT NULL,
  model               text NOT NULL,                                       -- '': the request names none
  paused_until        timestamptz NOT NULL,
  requests_per_minute double precision CHECK (requests_per_minute > 0),    -- NULL: not announced, as with the others
  next_at             timestamptz NOT NULL DEFAULT '-infinity',
  input_per_minute    bigint CHECK (input_per_minute > 0),
  input_full_at       timestamptz NOT NULL DEFAULT '-infinity',
  output_per_minute   bigint CHECK (output_per_minute > 0),
  output_full_at      timestamptz NOT NULL DEFAULT '-infinity',
  tokens_per_minute   bigint CHECK (tokens_per_minute > 0),                -- of input and output together
  tokens_full_at      timestamptz NOT NULL DEFAULT '-infinity',
  refused_at          timestamptz NOT NULL,
  PRIMARY KEY (origin, model)
) WITH (fillfactor = 50);

CREATE FUNCTION madrugada.is_paced(p madrugada.provider_pace) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$ SELECT greatest(p.refused_at, p.paused_until) > madrugada.now() - interval '1 hour' $$;

-- How long a bucket of this size needs to fill by so many tokens. Of a request that may use more than a minute's worth, a minute's worth
-- counts: no bucket ever holds more, and providers that let such a request through let it through when the bucket is full.
CREATE FUNCTION madrugada.fill_time(amount bigint, per_minute bigint) RETURNS interval
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT interval '1 minute' * (least(amount, per_minute)::double precision / per_minute) $$;

-- The earliest moment at which a bucket holds so many tokens; NULL: there is none.
CREATE FUNCTION madrugada.bucket_holds_at(full_at timestamptz, amount bigint, per_minute bigint) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT full_at - interval '1 minute' + madrugada.fill_time(amount, per_minute) $$;

-- The earliest moment for one more dispatch, which may use so many tokens; chance: from 0 to 1.
CREATE FUNCTION madrugada.turn_at(p madrugada.provider_pace, input bigint, output bigint, chance double precision) RETURNS timestamptz
  LANGUAGE sql STABLE
  AS $$
    SELECT greatest(madrugada.now(), p.paused_until,
      CASE WHEN p.requests_per_minute IS NULL
           THEN p.paused_until + chance * least(p.paused_until - p.refused_at, interval '30 seconds') ELSE p.next_at END,
      madrugada.bucket_holds_at(p.input_full_at, input, p.input_per_minute),
      madrugada.bucket_holds_at(p.output_full_at, output, p.output_per_minute),
      madrugada.bucket_holds_at(p.tokens_full_at, input + output, p.tokens_per_minute))
  $$;

-- What a bucket is after a dispatch: what it had taken and not used is back, and it is not fuller than the provider says. `announced` holds
-- limit and remaining, each may be missing; of a refused dispatch without a word of what remains, nothing does.
CREATE FUNCTION madrugada.bucket_after(full_at timestamptz, per_minute bigint, announced jsonb, taken bigint, used bigint, refused boolean)
  RETURNS timestamptz
  LANGUAGE sql STABLE
  AS $$
    SELECT CASE WHEN per_minute IS NULL THEN full_at ELSE greatest(
      full_at - madrugada.fill_time(taken, per_minute) + madrugada.fill_time(used, per_minute),
      CASE WHEN announced ? 'remaining' THEN madrugada.now() + interval '1 minute' - madrugada.fill_time((announced ->> 'remaining')::bigint, per_minute)
           WHEN refused AND announced ? 'limit' THEN madrugada.now() + interval '1 minute' END) END
  $$;

-- What a dispatch has taught. pause_ms NULL: it was not refused. announced: by 'requests' (so many a minute; null: no pace follows from what was
-- said), 'input', 'output' and 'tokens' (objects with limit and remaining), what the provider said. taken_… is what its turn took, 0 where
-- it had none; used_… what it used of that. counted: it had a turn. One that had none, because nobody knew of a pace when it went out, has come
-- within the announced rate all the same: refused, it is counted now, up to a minute ahead, so that those who went out at once are not followed
-- by a full minute's turns.
-- Tells the fleet only what it does not know: while the pace holds, everybody asks for turns already.
CREATE FUNCTION madrugada.note_pace(
  the_origin text, the_model text, pause_ms double precision, announced jsonb,
  taken_input bigint, taken_output bigint, used_input bigint, used_output bigint, used_tokens bigint,
  counted boolean
) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
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
END $$;

-- The next turn of a dispatch that may use so many tokens, as a moment and as the milliseconds until then. Beyond most_wait_ms it is not
-- granted, and takes nobody's place. No row: the pace does not hold any more.
CREATE FUNCTION madrugada.take_turn(the_origin text, the_model text, input bigint, output bigint, most_wait_ms double precision)
  RETURNS TABLE (granted boolean, wait_ms double precision, at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
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
END $$;

GRANT SELECT ON madrugada.provider_pace TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.is_paced(madrugada.provider_pace) TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION
  madrugada.note_pace(text, text, double precision, jsonb, bigint, bigint, bigint, bigint, bigint, boolean),
  madrugada.take_turn(text, text, bigint, bigint, double precision)
  TO madrugada_worker;
