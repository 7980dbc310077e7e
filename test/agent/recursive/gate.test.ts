import { expect, test } from 'vitest';
import { checkAnswer } from '../../../src/agent/recursive/gate.ts';
import { ANSWER, ANSWERED, recursiveBench, TEXT } from '../../support/recursive-bench.ts';

const bench = recursiveBench();
const documents = [
  { name: 'a.txt', text: 'The rent is  500\n  a month, \u00A0 due on the first.' },
  { name: 'b.txt', text: 'Nothing of it here.' },
];

/** What the gate says to an answer that cites `quote` from `document`. */
function problemsOf(document: string, quote: string, text = 'an answer'): string[] {
  return checkAnswer({ text, citations: [{ document, quote }] }, documents);
}

test('a quote that stands in its document passes', () => {
  expect(problemsOf('b.txt', 'Nothing of it')).toEqual([]);
});

test('white space does not matter, on either side', () => {
  expect(problemsOf('a.txt', ' is 500 a\tmonth, due\n')).toEqual([]);
});

test('white space where there is none in the document does matter', () => {
  expect(problemsOf('a.txt', '5 00')).toHaveLength(1);
});

test('an answer without text is refused', () => {
  expect(problemsOf('b.txt', 'Nothing', ' \n')).toEqual(['the text of the answer is empty']);
});

test('an answer that nobody would read is refused, with how long it may be', () => {
  expect(problemsOf('b.txt', 'Nothing', 'x'.repeat(100_000))).toEqual([]);
  expect(problemsOf('b.txt', 'Nothing', 'x'.repeat(100_001))).toEqual([
    'the text has 100001 characters; at most 100000',
  ]);
});

test('an answer that the database cannot keep is refused here, where the root model can mend it', () => {
  expect(problemsOf('b.txt', 'Nothing', 'a\0b')).toEqual([
    'it contains a NUL character, which the database cannot keep',
  ]);
  expect(problemsOf('b.txt', 'Nothing', String.raw`the text \u0000 spelled out`)).toEqual([]);
});

test('an answer without a citation is refused', () => {
  expect(checkAnswer({ text: 'x', citations: [] }, documents)).toEqual([
    'there is no citation: an answer needs at least one',
  ]);
});

test('a citation from a document that is not there is refused, naming it', () => {
  expect(problemsOf('c.txt', 'Nothing')).toEqual(['citation 1: there is no document "c.txt"']);
});

test('a quote that stands only in another document is refused', () => {
  expect(problemsOf('a.txt', 'Nothing of it')).toEqual([
    'citation 1: this does not stand in "a.txt", word for word: Nothing of it',
  ]);
});

test('an invented quote is refused, and a long one is shortened in the refusal', () => {
  const [problem = ''] = problemsOf('b.txt', 'never '.repeat(100));
  expect(problem).toMatch(/word for word: never never/);
  expect(problem.length).toBeLessThan(400);
});

test('a quote of nothing but white space is refused', () => {
  expect(problemsOf('a.txt', ' \n ')).toEqual(['citation 1: the quote is empty']);
});

test('every citation is looked at, and numbered in the refusal', () => {
  const citations = [
    { document: 'b.txt', quote: 'Nothing' },
    { document: 'b.txt', quote: 'invented' },
    { document: 'x', quote: 'y' },
  ];
  expect(checkAnswer({ text: 'x', citations }, documents)).toEqual([
    expect.stringMatching(/^citation 2: /),
    expect.stringMatching(/^citation 3: /),
  ]);
});

test('a context that is one string is cited under the name "context"', () => {
  const quoted = (document: string) =>
    checkAnswer({ text: 'x', citations: [{ document, quote: 'made of rock' }] }, TEXT);
  expect(quoted('context')).toEqual([]);
  expect(quoted('text')).toEqual(['citation 1: there is no document "text"']);
});

const INVENTED = 'answer({ text: "cheese", citations: [{ document: "context", quote: "made of cheese" }] })';

test('an answer that passes completes the task', async () => {
  const { result, task } = await bench.run([ANSWER]);
  expect(result.ending).toBe('completed');
  expect(task.result).toEqual(ANSWERED);
});

test('the first refusal is told to the root model, which may mend its answer', async () => {
  const { task } = await bench.run([INVENTED, ANSWER]);

  expect(bench.told[0]).toContain(
    'The answer was refused:\n- citation 1: this does not stand in "context", word for word: made of cheese\n',
  );
  expect(task.result).toEqual(ANSWERED);
});

test('a second answer that does not pass fails the attempt, and the root model is not asked again', async () => {
  const { result } = await bench.run([INVENTED, 'print("let me see")', INVENTED, ANSWER]);

  expect(result).toMatchObject({
    ending: 'failed',
    message: expect.stringMatching(/^the answer does not pass the gate: citation 1: /),
  });
  expect(bench.rootRequests).toHaveLength(3);
});

test('an answer in code that fails afterwards is not taken, and the root model is told so', async () => {
  const { task } = await bench.run([`${ANSWER}\nthrow new Error('too late')`, INVENTED.replaceAll('cheese', 'rock')]);

  expect(bench.told[0]).toContain('Its answer was not taken, because the code failed after it.');
  expect(task.result).toEqual({ text: 'rock', citations: [{ document: 'context', quote: 'made of rock' }] });
  expect(bench.rootRequests).toHaveLength(2);
});

test('an answer in code that fails afterwards does not use up a try at the gate', async () => {
  const { result } = await bench.run([`${INVENTED}\nthrow new Error('too late')`, INVENTED, ANSWER]);
  expect(result.ending).toBe('completed');
});

test('the last of several answers in one turn counts', async () => {
  const { task } = await bench.run([`${INVENTED}\n${ANSWER}`]);
  expect(task.result).toEqual(ANSWERED);
});

test('an answer that is no answer at all is an error of the code, told to the root model', async () => {
  const { result } = await bench.run(['answer("rock")', ANSWER]);

  expect(bench.told[0]).toContain('The code failed: TypeError: answer({ text, citations');
  expect(result.ending).toBe('completed');
});
