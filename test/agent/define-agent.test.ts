import type { StandardSchemaV1 } from '@standard-schema/spec';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { checkSchema, defineAgent } from '../../src/agent/define-agent.ts';

test('an agent is what was defined', () => {
  const agent = { input: z.string(), output: z.string(), run: async () => 'answer' };
  expect(defineAgent(agent)).toBe(agent);
});

test('a value that fits is given as the schema makes it', async () => {
  const schema = z.object({ n: z.coerce.number(), lang: z.string().default('pt') });
  expect(await checkSchema(schema, { n: '5' })).toMatchObject({ value: { n: 5, lang: 'pt' } });
});

test('what does not fit is said with its place', async () => {
  const schema = z.object({ a: z.object({ list: z.array(z.number()) }), b: z.string() });
  const { problems } = await checkSchema(schema, { a: { list: [1, 'x'] }, b: 7 });
  expect(problems).toEqual([expect.stringMatching(/^a\.list\.1: /), expect.stringMatching(/^b: /)]);
});

test('a problem of the whole has no place', async () => {
  const { problems } = await checkSchema(z.object({}), 'text');
  expect(problems).toEqual([expect.stringMatching(/^Invalid input/)]);
});

test('any Standard Schema serves, also one that answers later', async () => {
  const schema: StandardSchemaV1<unknown, number> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: async (value) =>
        typeof value === 'number'
          ? { value: value * 2 }
          : { issues: [{ message: 'no number', path: [{ key: 'deep' }, 'down'] }] },
    },
  };
  expect(await checkSchema(schema, 4)).toMatchObject({ value: 8 });
  expect(await checkSchema(schema, 'x')).toEqual({ problems: ['deep.down: no number'] });
});
