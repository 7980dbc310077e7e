import { z } from 'zod';
// relative, so that it runs before the package is built; your own agent says: from 'madrugada'
import { defineAction, defineAgent, fileAction } from '../../src/index.ts';

const publish = defineAction({
  ...fileAction<{ item: string; text: string }>({
    root: process.env.PUBLISH_IN ?? 'published', // must exist; no action leaves it
    path: ({ item }) => `${item}.txt`,
    content: ({ text }) => text,
    replaces: () => null, // only where there is no file yet
  }),
  name: 'publish',
  arguments: z.object({ item: z.string(), text: z.string() }),
  intent: ({ item }) => `publish the answer to question ${item}`,
  permissions: ['write below the folder of published answers'],
  blastRadius: ({ item }) => `one new file, ${item}.txt`,
  approval: 'person',
  expiresIn: 24 * 3_600_000,
});

/** Answers a question, and publishes the answer once a person has agreed to exactly this text. */
export default defineAgent({
  input: z.object({ question: z.string() }),
  output: z.object({ text: z.string(), published: z.string() }),
  actions: [publish],
  async run(task) {
    const reply = await task.anthropic.messages.create({
      model: 'claude-haiku-4-5',
      max_tokens: 500,
      messages: [{ role: 'user', content: task.input.question }],
    });
    const text = reply.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
    const { state } = await task.action(publish, { item: task.item, text });
    return { text, published: state };
  },
});
