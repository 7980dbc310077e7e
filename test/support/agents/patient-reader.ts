import type Anthropic from '@anthropic-ai/sdk';
import { z } from 'zod';
import { defineAgent, type Task } from '../../../src/index.ts';

/** A stream that broke off is asked for again, so often at most. */
const PATIENCE = 12;
const MODELS = ['claude-haiku-4-5', 'claude-sonnet-4-5'];

/** Asks two models three things each, at the same time; one of them answers in streams. A stream that breaks off is asked for again. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.array(z.string()),
  async run(task) {
    const answers: string[] = [];
    for (const part of ['one', 'two', 'three']) {
      const both = MODELS.map((model, index) =>
        task.scope(model, (inner) =>
          ask(inner, index === 0, {
            model,
            max_tokens: 2000,
            messages: [{ role: 'user', content: `${task.input.question}, part ${part}` }],
          }),
        ),
      );
      answers.push(...(await Promise.all(both)));
    }
    return answers;
  },
});

async function ask(
  { anthropic }: Pick<Task, 'anthropic'>,
  streamed: boolean,
  request: Anthropic.MessageCreateParamsNonStreaming,
): Promise<string> {
  for (let tries = 1; ; tries += 1) {
    try {
      const message = await (streamed
        ? anthropic.messages.stream(request).finalMessage()
        : anthropic.messages.create(request));
      return message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
    } catch (error) {
      if (tries >= PATIENCE || !streamed) throw error;
    }
  }
}
