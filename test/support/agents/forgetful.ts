import { z } from 'zod';
import { defineAgent } from '../../../src/index.ts';

const ask = (content: string) => ({
  model: 'claude-haiku-4-5',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content }],
});

/** Fires a call that it never awaits, nor catches, and asks another thing. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.string(),
  async run(task) {
    void task.anthropic.messages.create(ask('fired'));
    const message = await task.anthropic.messages.create(ask('awaited'));
    return message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
  },
});
