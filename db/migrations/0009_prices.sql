-- List prices in dollars per million tokens, as published by the provider. Operators add models and later prices as further rows.

SET LOCAL ROLE madrugada_owner;
SET LOCAL search_path = madrugada, pg_catalog;

INSERT INTO madrugada.model_price
  (model, valid_from, input_usd_per_mtok, output_usd_per_mtok, cache_read_usd_per_mtok, cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok)
SELECT model, DATE '2025-01-01', input, output, input * 0.1, input * 1.25, input * 2
  FROM (VALUES
    ('claude-opus-4-6', 5.00, 25.00),
    ('claude-opus-4-5', 5.00, 25.00),
    ('claude-sonnet-4-6', 3.00, 15.00),
    ('claude-sonnet-4-5', 3.00, 15.00),
    ('claude-haiku-4-5', 1.00, 5.00)
  ) AS list (model, input, output);
