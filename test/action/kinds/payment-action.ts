import { httpAction } from '../../../src/action/kinds/http.ts';
import type { HttpOptions } from '../../../src/action/kinds/http-options.ts';

export interface Payment {
  account: string;
  amount: number | bigint;
}

/** The credential of the tests; it must turn up nowhere. */
export const BEARER = 'sk-very-secret-0123456789';

/** The options of a payment posted to a server, looked up by its key. */
export function paymentOptions(url: string, more: Partial<HttpOptions<Payment>> = {}): HttpOptions<Payment> {
  return {
    method: 'POST',
    url: () => `${url}/payments`,
    body: ({ account, amount }) => ({ account, amount }),
    headers: () => ({ authorization: `Bearer ${BEARER}` }),
    resource: (_args, { key }) => `${url}/payments?reference=${key}`,
    pick: (json) => (json as { hits: unknown[] }).hits,
    rollback: { kind: 'none', cannot: 'the payment' },
    ...more,
  };
}

export function paymentAction(url: string, more: Partial<HttpOptions<Payment>> = {}) {
  return httpAction(paymentOptions(url, more));
}
