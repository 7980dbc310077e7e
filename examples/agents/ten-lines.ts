import { z } from 'zod';
// relative, so that it runs before the package is built; your own agent says: from 'madrugada'
import { defineAgent } from '../../src/index.ts';

export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.object({ text: z.string() }),
  async run(task) {
    const messages = [{ role: 'user' as const, content: task.input.question }];
    const reply = await task.anthropic.messages.create({ model: 'claude-haiku-4-5', max_tokens: 500, messages });
    return { text: reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('') };
  },
});
