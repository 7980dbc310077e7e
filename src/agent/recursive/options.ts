import { statSync } from 'node:fs';
import { z } from 'zod';

/** A text that is a number; an empty one is none, though JavaScript takes it for 0. */
const number = (what: string) => z.string(what).min(1, what).pipe(z.coerce.number(what));
const wholeNumber = number('a whole number').pipe(z.int('a whole number'));
const count = (fallback: number, least: number, most: number) =>
  wholeNumber.pipe(z.number().min(least).max(most)).default(fallback);

/** Options of a batch for the agent `recursive`; all are text on the command line. */
const shape = {
  /** A folder of text files: what `context` holds, unless an input brings its own. */
  documents: z.string().refine(isFolder, 'there is no such folder').optional(),
  root_model: z.string().min(1).default('claude-opus-4-6'),
  sub_model: z.string().min(1).default('claude-haiku-4-5'),
  /** Turns of the root model until an attempt fails. */
  max_turns: count(20, 1, 200),
  /** Calls of one task beside those of its root model. */
  max_subcalls: count(100, 0, 10_000),
  max_concurrent_subcalls: count(8, 1, 100),
  /** 1: sub-calls are plain calls. 2: they may be recursive agents, whose sub-calls are plain … */
  max_depth: count(1, 1, 5),
  /** Characters of a turn's output that the root model sees. */
  max_output_chars: count(10_000, 200, 200_000),
  /** Output tokens of one call of the root model, and of a sub-call. */
  max_tokens: count(8192, 1, 64_000),
  max_subcall_tokens: count(2048, 1, 64_000),
  /** Input and output tokens of a whole task, over all its calls; none: no limit. */
  max_task_tokens: wholeNumber.pipe(z.number().min(1)).optional(),
  /** US dollars of a whole task. */
  max_task_usd: z
    .string()
    .regex(/^\d+(\.\d+)?$/, 'dollars, such as 1.50')
    .optional(),
  /** Passed on to the root model as it is. */
  effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
  /** Passed on to both models. */
  temperature: number('a number').pipe(z.number().min(0).max(1)).optional(),
  /** How long the provider is to keep what stays the same from turn to turn. */
  cache: z.enum(['off', '5m', '1h']).default('5m'),
};

export const recursiveOptions = z.strictObject(shape, {
  error: (issue) =>
    issue.code === 'unrecognized_keys'
      ? `there is no option ${issue.keys.join(', ')}; there are ${Object.keys(shape).join(', ')}`
      : undefined,
});

export type RecursiveOptions = z.infer<typeof recursiveOptions>;

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
