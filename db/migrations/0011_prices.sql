-- What a price needs beyond five figures: bands for long prompts, factors for tiers and modes, what bounds a request, the fees of the
-- provider's own tools, and whose it is. The lists that come with the program are written here when the database is migrated.
--
-- Which price counts for a model at a time: the latest of those a person has given that are valid by then; only where there is none, the
-- latest of those built in. Bands belong together: all those of the same model, date and origin are one price.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

ALTER TABLE madrugada.model_price
  ADD COLUMN above_input_tokens integer NOT NULL DEFAULT 0 CHECK (above_input_tokens >= 0), -- holds for the whole of a request with more input, cache reads and writes included
  ADD COLUMN factors jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(factors) = 'object'), -- of all tokens, by tier or mode: {"batch": "0.5"}
  ADD COLUMN context_tokens integer CHECK (context_tokens > 0),
  ADD COLUMN max_output_tokens integer CHECK (max_output_tokens > 0),
  ADD COLUMN server_tool_usd_per_1000 jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(server_tool_usd_per_1000) = 'object'), -- {"web_search": "10"}; one that is missing is refused
  ADD COLUMN source text NOT NULL DEFAULT 'by hand' CHECK (source <> ''),                  -- 'built in', or the file a person loaded
  ADD COLUMN published_at text,                                                            -- the page the figures are from
  ADD COLUMN built_in boolean GENERATED ALWAYS AS (source = 'built in') STORED,
  -- decimals as text: a JSON number is read as a float
  ADD CHECK (NOT jsonb_path_exists(factors, '$.* ? (@.type() <> "string" || !(@ like_regex "^[0-9]+([.][0-9]+)?$"))')),
  ADD CHECK (NOT jsonb_path_exists(server_tool_usd_per_1000, '$.* ? (@.type() <> "string" || !(@ like_regex "^[0-9]+([.][0-9]+)?$"))'));

-- The prices this schema came with, where nobody has changed them.
UPDATE madrugada.model_price p SET source = 'built in'
  FROM (VALUES ('claude-opus-4-6', 5, 25), ('claude-opus-4-5', 5, 25), ('claude-sonnet-4-6', 3, 15), ('claude-sonnet-4-5', 3, 15), ('claude-haiku-4-5', 1, 5))
    AS list (model, input, output)
 WHERE p.model = list.model AND p.valid_from = DATE '2025-01-01'
   AND (p.input_usd_per_mtok, p.output_usd_per_mtok, p.cache_read_usd_per_mtok, p.cache_write_5m_usd_per_mtok, p.cache_write_1h_usd_per_mtok)
     = (list.input, list.output, list.input * 0.1, list.input * 1.25, list.input * 2);

ALTER TABLE madrugada.model_price
  DROP CONSTRAINT model_price_pkey,
  ADD PRIMARY KEY (model, valid_from, above_input_tokens, built_in);

CREATE FUNCTION madrugada.guard_model_price() RETURNS trigger
  LANGUAGE plpgsql SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
BEGIN
  IF 'built in' IN (CASE WHEN TG_OP <> 'INSERT' THEN OLD.source END, CASE WHEN TG_OP <> 'DELETE' THEN NEW.source END)
     AND NOT pg_has_role(current_user, 'madrugada_owner', 'MEMBER') THEN
    RAISE EXCEPTION 'built-in prices come with the program: add a price of your own, which counts before them (madrugada price load)'
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END
$$;
CREATE TRIGGER model_price_guard BEFORE INSERT OR UPDATE OR DELETE ON madrugada.model_price
  FOR EACH ROW EXECUTE FUNCTION madrugada.guard_model_price();

CREATE FUNCTION madrugada.audit_model_price() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = madrugada, pg_catalog, pg_temp
  AS $$
DECLARE
  price model_price%ROWTYPE := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  PERFORM record_event('price',
    CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END, NULL, NULL,
    CASE WHEN TG_OP <> 'INSERT' THEN describe_price(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN describe_price(NEW) END, NULL, NULL, NULL,
    concat_ws(': ', format('%s from %s on, above %s tokens (%s)', price.model, price.valid_from, price.above_input_tokens, price.source), said('reason')));
  RETURN NULL;
END
$$;
CREATE FUNCTION madrugada.describe_price(price madrugada.model_price) RETURNS text
  LANGUAGE sql STABLE
  AS $$
    SELECT format('input %s, output %s, cache read %s, cache write 5m %s, 1h %s, factors %s, tools %s, context %s, output at most %s',
      price.input_usd_per_mtok, price.output_usd_per_mtok, price.cache_read_usd_per_mtok, price.cache_write_5m_usd_per_mtok,
      price.cache_write_1h_usd_per_mtok, price.factors, price.server_tool_usd_per_1000,
      coalesce(price.context_tokens::text, 'unknown'), coalesce(price.max_output_tokens::text, 'unknown'))
  $$;
-- What is built in is known by the program's version; only what happens to it later is news.
CREATE TRIGGER model_price_insert_audit AFTER INSERT ON madrugada.model_price
  FOR EACH ROW WHEN (NEW.source <> 'built in') EXECUTE FUNCTION madrugada.audit_model_price();
CREATE TRIGGER model_price_change_audit AFTER UPDATE OR DELETE ON madrugada.model_price
  FOR EACH ROW EXECUTE FUNCTION madrugada.audit_model_price();

GRANT DELETE ON madrugada.model_price TO madrugada_operator;
