-- A provider's pace, shared by the fleet. It holds from the first refusal on account of load until an hour has passed without one, or without
-- a pause; before and after, no dispatch asks here. Where the provider announced its rate, next_at is the theoretical arrival time of a GCRA bucket without a
-- burst: each turn moves it on by one gap. Where it did not, turns are spread at random over as long again as the pause lasts, and 30 s at most, so that
-- those who waited do not all come back at one instant.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

CREATE TABLE madrugada.provider_pace (
  origin              text NOT NULL,
  model               text NOT NULL,                                       -- '': the request names none
  paused_until        timestamptz NOT NULL,
  requests_per_minute integer CHECK (requests_per_minute > 0),             -- NULL: never announced
  next_at             timestamptz NOT NULL DEFAULT '-infinity',
  refused_at          timestamptz NOT NULL,
  PRIMARY KEY (origin, model)
) WITH (fillfactor = 50);

CREATE FUNCTION madrugada.is_paced(p madrugada.provider_pace) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$ SELECT greatest(p.refused_at, p.paused_until) > madrugada.now() - interval '1 hour' $$;

-- The earliest moment for one more dispatch; chance: from 0 to 1.
CREATE FUNCTION madrugada.turn_at(p madrugada.provider_pace, chance double precision) RETURNS timestamptz
  LANGUAGE sql STABLE
  AS $$
    SELECT CASE WHEN p.requests_per_minute IS NULL
      THEN greatest(madrugada.now(), p.paused_until + chance * least(p.paused_until - p.refused_at, interval '30 seconds'))
      ELSE greatest(madrugada.now(), p.paused_until, p.next_at) END
  $$;

-- Tells the fleet only what it does not know: while the pace holds, everybody asks for turns already. rate NULL: not announced this time.
CREATE FUNCTION madrugada.note_refusal(the_origin text, the_model text, pause_ms double precision, rate integer) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  pause_end timestamptz := now() + make_interval(secs => pause_ms / 1000);
  was_paced boolean;
BEGIN
  SELECT is_paced(p) INTO was_paced FROM provider_pace p WHERE p.origin = the_origin AND p.model = the_model;
  INSERT INTO provider_pace AS p (origin, model, paused_until, requests_per_minute, refused_at)
    VALUES (the_origin, the_model, pause_end, rate, now())
    ON CONFLICT (origin, model) DO UPDATE
      SET paused_until = greatest(p.paused_until, excluded.paused_until),
          requests_per_minute = coalesce(excluded.requests_per_minute, p.requests_per_minute),
          refused_at = excluded.refused_at;
  IF was_paced IS NOT TRUE THEN
    PERFORM pg_notify('madrugada_pace', '');
  END IF;
END $$;

-- The next turn, as a moment and as the milliseconds until then. Beyond most_wait_ms it is not granted, and takes nobody's place.
-- No row: the pace does not hold any more.
CREATE FUNCTION madrugada.take_turn(the_origin text, the_model text, most_wait_ms double precision)
  RETURNS TABLE (granted boolean, wait_ms double precision, at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  chance double precision := random();
BEGIN
  UPDATE provider_pace p
     SET next_at = turn_at(p, chance) + coalesce(interval '1 minute' / p.requests_per_minute, interval '0')
   WHERE p.origin = the_origin AND p.model = the_model AND is_paced(p)
     AND turn_at(p, chance) <= now() + make_interval(secs => most_wait_ms / 1000)
  RETURNING p.next_at - coalesce(interval '1 minute' / p.requests_per_minute, interval '0') INTO at;
  granted := FOUND;
  IF NOT granted THEN
    SELECT turn_at(p, chance) INTO at
      FROM provider_pace p WHERE p.origin = the_origin AND p.model = the_model AND is_paced(p);
    IF NOT FOUND THEN RETURN; END IF;
  END IF;
  wait_ms := greatest(extract(epoch FROM at - now()) * 1000, 0);
  RETURN NEXT;
END $$;

GRANT SELECT ON madrugada.provider_pace TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION madrugada.is_paced(madrugada.provider_pace) TO madrugada_worker, madrugada_operator, madrugada_approver, madrugada_auditor;
GRANT EXECUTE ON FUNCTION
  madrugada.note_refusal(text, text, double precision, integer), madrugada.take_turn(text, text, double precision)
  TO madrugada_worker;
