import { isObject } from './usage.ts';

/** What an answer at each paid endpoint has, by the end of its path: Anthropic's messages, OpenAI's chat completions and responses. */
const ANSWER_OF: [path: RegExp, isAnswer: (json: Record<string, unknown>) => boolean][] = [
  [/\/messages$/, (json) => json.type === 'message' || Array.isArray(json.content)],
  [/\/chat\/completions$/, (json) => Array.isArray(json.choices)],
  [/\/responses$/, (json) => json.object === 'response' || Array.isArray(json.output)],
];

/**
 * Why the whole body of a success is none of a model's: the page of a proxy, nothing, JSON of another kind. `error` is the body where it is
 * an error in the provider's form. Undefined for an answer, and for what is asked elsewhere: there anything may be one.
 */
export function whyNoAnswer(
  method: string,
  path: string,
  body: Buffer,
): { words: string; error: string | undefined } | undefined {
  const isAnswer = method === 'POST' ? ANSWER_OF.find(([end]) => end.test(path))?.[1] : undefined;
  if (isAnswer === undefined) return undefined;
  const text = body.toString();
  if (text.trim() === '') return { words: 'its body is empty', error: undefined };
  const json = parse(text);
  if (json === undefined) return { words: `its body is not JSON: ${beginning(text)}`, error: undefined };
  if (!isObject(json)) return { words: `its JSON is no message: ${beginning(text)}`, error: undefined };
  if (isObject(json.error)) return { words: `an error: ${beginning(text)}`, error: text };
  return isAnswer(json) ? undefined : { words: `its JSON is no message: ${beginning(text)}`, error: undefined };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function beginning(text: string): string {
  return text.slice(0, 200);
}
