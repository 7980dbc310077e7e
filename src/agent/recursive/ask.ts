import type Anthropic from '@anthropic-ai/sdk';
import { COST_HEADER } from '../../journal/issue.ts';
import type { Task } from '../task.ts';
import type { TaskLimits } from './task-limits.ts';

/** One reply of a model. */
export interface Reply {
  /** To be given back unchanged in the next turn. */
  content: Anthropic.ContentBlock[];
  /** Its text alone. */
  text: string;
  /** Cut off at `max_tokens`. */
  isCut: boolean;
}

/** Makes one call within the limits of its task. Throws LimitReached before anything is sent, and what the client throws for a refusal. */
export async function ask(
  { anthropic }: Pick<Task, 'anthropic'>,
  limits: TaskLimits,
  request: Anthropic.MessageCreateParamsNonStreaming,
): Promise<Reply> {
  limits.checkSpending();
  const { data, response } = await anthropic.messages.create(request).withResponse();
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = data.usage;
  const tokens = input_tokens + output_tokens + (cache_creation_input_tokens ?? 0) + (cache_read_input_tokens ?? 0);
  limits.charge({ asked: request.model, answered: data.model }, tokens, response.headers.get(COST_HEADER) ?? undefined);
  return {
    content: data.content,
    text: data.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n'),
    isCut: data.stop_reason === 'max_tokens',
  };
}
