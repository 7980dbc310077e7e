import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { AnyAction } from '../action/define-action.ts';
import type { Task } from './task.ts';

/** An agent: what it takes, what it answers, and how. Schemas are any Standard Schema (zod, valibot, arktype …). */
export interface Agent<Input = unknown, Output = unknown, Options = Record<string, unknown>> {
  /** Options of the batch (`--option k=v`), all text as given; without a schema any are taken. A bad one is refused when the batch is loaded. */
  options?: StandardSchemaV1<unknown, Options>;
  /** A line that does not fit is refused when the batch is loaded, not at night. */
  input: StandardSchemaV1<unknown, Input>;
  output: StandardSchemaV1<unknown, Output>;
  /** What it may change outside, by `task.action`. Listed, so that what was begun can be undone without running the agent again. */
  actions?: readonly AnyAction[];
  /** Answers one task. Model calls go through `task.anthropic` or `task.fetch`; a crash starts it over, with recorded calls replayed. */
  run(task: Task<Input, Options>): Promise<Output>;
  /** A deterministic gate: throws to reject an answer. The producer never judges itself. */
  check?(answer: Output, task: Task<Input, Options>): void | Promise<void>;
}

/** Declares an agent; use it as the default export of a module. */
export function defineAgent<Input, Output, Options = Record<string, unknown>>(
  agent: Agent<Input, Output, Options>,
): Agent<Input, Output, Options> {
  return agent;
}

/** Checks a value against a schema. Returns what is wrong, in words, or the value as the schema makes it. */
export async function checkSchema<T>(
  schema: StandardSchemaV1<unknown, T>,
  value: unknown,
): Promise<{ value: T; problems: undefined } | { problems: string[] }> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return { value: result.value, problems: undefined };
  return {
    problems: result.issues.map(({ path, message }) => {
      const where = path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
      return where ? `${where}: ${message}` : message;
    }),
  };
}

/** As `checkSchema`, for the options of a batch. */
export async function checkOptions<Options>(
  { options }: Pick<Agent<never, unknown, Options>, 'options'>,
  given: Record<string, unknown>,
): Promise<{ value: Options; problems: undefined } | { problems: string[] }> {
  return options ? checkSchema(options, given) : { value: given as Options, problems: undefined };
}
