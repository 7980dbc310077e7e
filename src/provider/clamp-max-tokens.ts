import { OUTPUT_LIMITS } from './bound-output.ts';
import { ownValues, parseObject, replaceSpans } from './own-values.ts';

/**
 * The body of a paid request with its limit of output tokens lowered to `most`; every other byte stays as it is. A request of OpenAI's APIs
 * that says none is given one (Anthropic's always say one). A body that is no JSON object is returned unchanged.
 */
export function clampMaxTokens(body: Uint8Array, most: number): Uint8Array {
  const parsed = parseObject(body);
  if (parsed === undefined) return body;
  const { text, value: request } = parsed;
  const missing = ownValues(text, OUTPUT_LIMITS).length === 0 ? limitFor(request) : undefined;
  if (missing === undefined) return lowerMaxTokens(body, most);
  const end = text.lastIndexOf('}');
  return Buffer.from(`${text.slice(0, end)},"${missing}":${most}${text.slice(end)}`);
}

/** As `clampMaxTokens`, but a request that says no limit is given none. */
export function lowerMaxTokens(body: Uint8Array, most: number): Uint8Array {
  const text = parseObject(body)?.text;
  if (text === undefined) return body;
  const tooHigh = ownValues(text, OUTPUT_LIMITS).filter(({ start, end }) => isAbove(text.slice(start, end), most));
  return tooHigh.length === 0 ? body : Buffer.from(replaceSpans(text, tooHigh, String(most)));
}

/** Where the API that a request without a limit belongs to takes one. */
function limitFor(request: Record<string, unknown>): string | undefined {
  if (request.messages !== undefined) return 'max_completion_tokens';
  if (request.input !== undefined) return 'max_output_tokens';
  return request.prompt === undefined ? undefined : 'max_tokens';
}

/** No limit at all, `null`, is above any. What is no number is for the provider to refuse. */
function isAbove(value: string, most: number): boolean {
  return value === 'null' || Number(value) > most;
}
