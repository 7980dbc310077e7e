import { existsSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { defineAgent, type Task } from '../../../src/index.ts';

/**
 * Asks two things. Between them, whoever comes first (option `mark`: a file it creates) meets an obstacle: with the option `obstacle` `spin` its
 * event loop stands still while the file of the option `gate` exists; with `wait` it waits for something that never comes.
 */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.array(z.string()),
  async run(task) {
    const answers = [await ask(task, `${task.input.question}, before`)];
    if (isFirst(String(task.options.mark))) {
      if (task.options.obstacle === 'wait') await new Promise(() => undefined);
      while (existsSync(String(task.options.gate)));
    }
    return [...answers, await ask(task, `${task.input.question}, after`)];
  },
});

function isFirst(mark: string): boolean {
  try {
    writeFileSync(mark, '', { flag: 'wx' });
    return true;
  } catch {
    return false; // somebody was here before
  }
}

async function ask(task: Task, content: string): Promise<string> {
  const message = await task.anthropic.messages.create({
    model: 'claude-haiku-4-5',
    max_tokens: 100,
    messages: [{ role: 'user', content }],
  });
  return message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
}
