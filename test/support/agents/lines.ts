import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { defineAgent } from '../../../src/index.ts';

/** Asks each line of a file (option `documents`), and fails after the last of fewer than two. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.string(),
  async run(task) {
    const lines = readFileSync(String(task.options.documents), 'utf8').trim().split('\n');
    for (const content of lines)
      await task.anthropic.messages.create({
        model: 'claude-haiku-4-5',
        max_tokens: 100,
        messages: [{ role: 'user', content }],
      });
    if (lines.length < 2) throw new Error('the document has no second line');
    return lines.join(', ');
  },
});
