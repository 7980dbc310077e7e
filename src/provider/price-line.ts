/** The list of one price that a person completes for `madrugada price load`: valid from the day of `at` on. */
export function priceLine(model: string, at: Date): string {
  const price = {
    valid_from: at.toISOString().slice(0, 10),
    input: '…',
    output: '…',
    cache_read: '…',
    cache_write_5m: '…',
    cache_write_1h: '…',
  };
  return JSON.stringify({ models: [{ model, prices: [price] }] });
}
