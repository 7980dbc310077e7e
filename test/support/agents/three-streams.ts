import { z } from 'zod';
import { defineAgent } from '../../../src/index.ts';

/** Asks three things, one after the other, and reads the answers as streams. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.array(z.string()),
  async run(task) {
    const answers: string[] = [];
    for (const content of ['one', 'two', 'three']) {
      const message = await task.anthropic.messages
        .stream({ model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user', content }] })
        .finalMessage();
      answers.push(message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''));
    }
    return answers;
  },
});
