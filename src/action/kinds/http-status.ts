/**
 * Statuses by which a target says that it has not acted, each before it would have. What is not listed leaves the effect in question:
 * - 2xx other than expected, and 3xx: a redirect after a POST usually means that it was done ("see other").
 * - 406: content is negotiated after the work. 408: gateways say it when the server behind them is slow.
 * - 409: often "a request with this key is being worked on". 424 and 207: a part may have been done.
 * - 402: payment providers answer a declined card so, and keep a record of the attempt.
 * - 5xx: something failed at an unknown point, 503 of a load balancer included: it cannot be told from one of the server behind it.
 */
const NOTHING_DONE = new Map([
  [400, 'the request was not understood'],
  [401, 'the credentials were not accepted'],
  [403, 'it is not allowed'],
  [404, 'there is no such address'],
  [405, 'the address does not take this method'],
  [407, 'the proxy let nothing through'],
  [410, 'the address is gone'],
  [411, 'a length is required'],
  [412, 'the target has changed since the precondition was checked'],
  [413, 'the request is too large'],
  [414, 'the address is too long'],
  [415, 'the content type is not taken'],
  [417, 'an expectation was not met'],
  [421, 'it came to the wrong server'],
  [422, 'the content was refused'],
  [423, 'the target is locked'],
  [425, 'it came too early in the connection'],
  [426, 'another protocol is required'],
  [428, 'the target asks for a condition, such as If-Match'],
  [429, 'too many requests'],
  [431, 'the headers are too large'],
  [451, 'it is not available for legal reasons'],
]);

/**
 * Why a reply with this status means for certain that nothing has taken effect; undefined where it does not. A target that enforces keys
 * answers 422, and some 400, to a key that it has already seen with other content: then the first one may have taken effect.
 */
export function whyNothingDone(status: number, enforcesKey: boolean): string | undefined {
  if (enforcesKey && (status === 422 || status === 400)) return undefined;
  return NOTHING_DONE.get(status);
}

/** The address holds nothing, or nothing any more. */
export function isAbsent(status: number): boolean {
  return status === 404 || status === 410;
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}
