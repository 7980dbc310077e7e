import { z } from 'zod';
import { defineAgent } from '../../../src/agent/define-agent.ts';

/** Names its process as its state before its only call: no other process can repeat it. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.string(),
  async run(task) {
    task.checkpoint('process', String(process.pid));
    await task.anthropic.messages.create({
      model: 'claude-haiku-4-5',
      max_tokens: 100,
      messages: [{ role: 'user', content: task.input.question }],
    });
    return 'done';
  },
});
