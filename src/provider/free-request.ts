const FREE_METHODS = new Set(['GET', 'HEAD', 'DELETE']);

/** Whether a request is never charged: it asks, counts or tidies up, and generates nothing. */
export function isFreeRequest(method: string, path: string): boolean {
  return FREE_METHODS.has(method) || path.endsWith('/count_tokens');
}
