import { PASSING_REFUSALS, REFUSALS, type Refusal } from './refusals.ts';

/** A whole or half answer, produced and charged, of which this much reaches the client. */
const LOST_ANSWERS = ['stall-headers', 'stall-body', 'cut-stream', 'end-early', 'charge-and-drop'] as const;

/** Pages of a proxy in front of the provider, which has not seen the request. */
const PAGES = [200, 502, 503] as const;
/** The proxy gave up waiting for an answer that the provider did produce. */
const GAVE_UP = 504;
export type PageStatus = (typeof PAGES)[number] | typeof GAVE_UP;

/** Error events that pass, and those that only a person can mend. */
const PASSING_ERRORS = ['overloaded_error', 'api_error', 'rate_limit_error'] as const;
const ACCOUNT_ERRORS = ['authentication_error', 'billing_error', 'permission_error'] as const;
export type ErrorType = (typeof PASSING_ERRORS)[number] | (typeof ACCOUNT_ERRORS)[number];

/** What goes wrong with one request. `name`: as it is asked for. */
export type Fault = { readonly name: string } & (
  | { readonly kind: 'refuse'; readonly refusal: Refusal }
  | { readonly kind: 'page'; readonly status: (typeof PAGES)[number] }
  | { readonly kind: 'gave-up' }
  | { readonly kind: 'error-first'; readonly type: ErrorType }
  | { readonly kind: 'error-late'; readonly type: ErrorType }
  | { readonly kind: (typeof LOST_ANSWERS)[number] }
);

/** A fault whose answer was produced: it is charged. */
export type ChargedFault = Exclude<Fault, { kind: 'refuse' | 'page' | 'error-first' }>;

const EVERY_FAULT: ReadonlyMap<string, Fault> = new Map(
  [
    ...[...REFUSALS].map(([word, refusal]): Fault => ({ name: `refuse=${word}`, kind: 'refuse', refusal })),
    ...PAGES.map((status): Fault => ({ name: `page=${status}`, kind: 'page', status })),
    { name: `page=${GAVE_UP}`, kind: 'gave-up' } as const,
    ...(['error-first', 'error-late'] as const).flatMap((kind) =>
      [...PASSING_ERRORS, ...ACCOUNT_ERRORS].map((type): Fault => ({ name: `${kind}=${type}`, kind, type })),
    ),
    ...LOST_ANSWERS.map((kind): Fault => ({ name: kind, kind })),
  ].map((fault) => [fault.name, fault]),
);
const DEFAULT_WORDS: Record<string, string> = {
  refuse: '429',
  'error-first': 'overloaded_error',
  'error-late': 'overloaded_error',
};

/** A fault by its name: `refuse` (429), `refuse=529`, `stall-body`, ...; undefined if there is no such fault. */
export function faultNamed(name: string): Fault | undefined {
  return EVERY_FAULT.get(name in DEFAULT_WORDS ? `${name}=${DEFAULT_WORDS[name]}` : name);
}

/** For messages: every name `faultNamed` accepts. */
export const FAULT_NAMES = [
  `refuse=${[...REFUSALS.keys()].join('|')}`,
  `page=${[...PAGES, GAVE_UP].join('|')}`,
  `error-first|error-late=${[...PASSING_ERRORS, ...ACCOUNT_ERRORS].join('|')}`,
  ...LOST_ANSWERS,
].join(', ');

/** Every fault that passes: those of the account, which end a night, are only struck where they are asked for. */
export const PASSING_FAULTS: readonly Fault[] = [...EVERY_FAULT.values()].filter(
  (fault) =>
    !(fault.kind === 'refuse' && !PASSING_REFUSALS.includes(fault.name.slice('refuse='.length))) &&
    !('type' in fault && ACCOUNT_ERRORS.some((type) => type === fault.type)),
);

/**
 * Whether the request was answered and is on the bill all the same. What was produced is charged, wherever it was lost; a refusal is not, nor
 * is an error that comes before any content; nor what a proxy kept from the provider.
 */
export function isCharged(fault: Fault): fault is ChargedFault {
  return fault.kind !== 'refuse' && fault.kind !== 'page' && fault.kind !== 'error-first';
}
