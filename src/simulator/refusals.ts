/** A refusal in Anthropic's form. */
export type Refusal = { readonly status: number; readonly type: string; readonly message: string };

/** Passing trouble: the same request may be answered a moment later. */
const PASSING = {
  '429': {
    status: 429,
    type: 'rate_limit_error',
    message: 'This request would exceed the rate limit of your organization (simulated).',
  },
  '500': { status: 500, type: 'api_error', message: 'Internal server error (simulated).' },
  '502': { status: 502, type: 'api_error', message: 'Bad gateway (simulated).' },
  '503': { status: 503, type: 'api_error', message: 'Service unavailable (simulated).' },
  '504': { status: 504, type: 'timeout_error', message: 'The request timed out (simulated).' },
  '529': { status: 529, type: 'overloaded_error', message: 'Overloaded (simulated).' },
} as const satisfies Record<string, Refusal>;

/** What only a person can mend: a night that meets one of these is over. */
const OF_THE_ACCOUNT = {
  '401': { status: 401, type: 'authentication_error', message: 'invalid x-api-key (simulated)' },
  '402': { status: 402, type: 'billing_error', message: 'There is an issue with your billing (simulated).' },
  '403': { status: 403, type: 'permission_error', message: 'Your API key may not use this resource (simulated).' },
  credit: {
    status: 400,
    type: 'invalid_request_error',
    message: 'Your credit balance is too low to access the Anthropic API (simulated).',
  },
} as const satisfies Record<string, Refusal>;

/** Every refusal by the word that follows `refuse=`. */
export const REFUSALS: ReadonlyMap<string, Refusal> = new Map(Object.entries({ ...PASSING, ...OF_THE_ACCOUNT }));
export const RATE_LIMITED: Refusal = PASSING['429'];

/** The words of the passing ones. */
export const PASSING_REFUSALS: readonly string[] = Object.keys(PASSING);
