import type { Round } from '../root-plan.ts';

/** One style of reading programs, with the sentence that introduces one. */
export type Reading = {
  readonly prose: string;
  /** Makes its sub-calls at the same time. */
  readonly concurrent: boolean;
  readonly program: (round: Round) => string;
};

/** Programs that read with sub-calls. They use what the opening has set up, and note every reply. */
export const READINGS: readonly [Reading, ...Reading[]] = [
  { prose: 'These passages are read one after the other.', concurrent: false, program: oneByOne },
  { prose: 'The next passages go out as a batch.', concurrent: true, program: batch },
  { prose: 'The next passages are read side by side.', concurrent: true, program: sideBySide },
  { prose: 'Some of these may fail, which is no reason to lose the others.', concurrent: true, program: settled },
  { prose: 'I want to see which reply comes first, and then all of them.', concurrent: true, program: race },
  { prose: 'A helper reads a range of passages.', concurrent: false, program: helper },
  { prose: 'A reader keeps count of what it has read.', concurrent: false, program: reader },
  { prose: 'Replies are collected by document.', concurrent: true, program: byDocument },
  { prose: 'A queue of passages is worked off.', concurrent: false, program: queue },
  { prose: 'Replies are taken as they are produced.', concurrent: false, program: generator },
];

function oneByOne({ number, first, count }: Round): string {
  return `for (let part = 1; part <= ${count}; part += 1) {
  const piece = pieceAt(${first} + part - 1);
  const reply = await llm(promptFor(${number}, part, piece));
  note(piece, reply);
  print(piece.document + ': ' + reply);
}`;
}

function batch({ number, first, count }: Round): string {
  return `const batch${number} = Array.from({ length: ${count} }, (_, n) => pieceAt(${first} + n));
const replies${number} = await llmBatch(batch${number}.map((piece, n) => promptFor(${number}, n + 1, piece)));
replies${number}.forEach((reply, n) => note(batch${number}[n], reply));
print(replies${number}.filter((reply) => reply !== null).length + ' of ${count} answered');
print(replies${number}.join('\\n'));`;
}

function sideBySide({ number, first, count }: Round): string {
  return `const found = await Promise.all(
  [...Array(${count}).keys()].map(async (n) => {
    const piece = pieceAt(${first} + n);
    return { piece, reply: await llm(promptFor(${number}, n + 1, piece)) };
  }),
);
for (const { piece, reply } of found) note(piece, reply);
const [{ piece: { document: firstDocument }, reply: firstReply }, ...others] = found;
print(firstDocument, firstReply, 'and', others.length, 'more');`;
}

function settled({ number, first, count }: Round): string {
  return `let failures = 0;
const asked = Array.from({ length: ${count} }, (_, n) => pieceAt(n + ${first}));
const outcomes = await Promise.allSettled(asked.map((piece, n) => llm(promptFor(${number}, n + 1, piece))));
for (const [n, { status, value, reason }] of outcomes.entries()) {
  if (status === 'fulfilled') {
    note(asked[n], value);
    print(\`\${n + 1}. \${value}\`);
  } else {
    failures += 1;
    print(\`\${n + 1}. failed: \${reason}\`);
  }
}
print(\`\${failures} failures\`);`;
}

function race({ number, first, count }: Round): string {
  return `const runners = [];
for (let n = 0; n < ${count}; n++) {
  const piece = pieceAt(${first} + n);
  runners.push(llm(promptFor(${number}, n + 1, piece)).then((reply) => ({ n, piece, reply })));
}
// Only printed: what is noted must not depend on which was the fastest.
print('first back: part ' + ((await Promise.race(runners)).n + 1));
(await Promise.all(runners)).forEach(({ piece, reply }) => note(piece, reply));
print(noted().length + ' notes');`;
}

function helper({ number, first, count, again }: Round): string {
  const definition = `async function readRange(round, start, length) {
  let done = 0;
  while (done < length) {
    const piece = pieceAt(start + done);
    done += 1;
    try {
      note(piece, await llm(promptFor(round, done, piece)));
    } catch (error) {
      print('part ' + done + ' failed: ' + error);
    }
  }
  return noted().length;
}

`;
  return `${again ? '' : definition}const notes${number} = await readRange(${number}, ${first}, ${count});
print(notes${number} + ' notes so far');`;
}

function reader({ number, first, count, again }: Round): string {
  const definition = `class Reader {
  static #readers = 0;
  read = 0;

  constructor() {
    this.id = ++Reader.#readers;
  }

  async ask(round, part, piece) {
    const reply = await llm(promptFor(round, part, piece));
    this.read += 1;
    note(piece, reply);
    return reply;
  }
}
var reader = new Reader();

`;
  return `${again ? '' : definition}const last = {};
for (const part of Array(${count}).keys()) {
  last.piece = pieceAt(${first} + part);
  last.reply = await reader.ask(${number}, part + 1, last.piece);
}
print('reader', reader.id, 'has read', reader.read, 'pieces; last:', last.reply);`;
}

function byDocument({ number, first, count, again }: Round): string {
  const definition = `const perDocument = new Map();
const known = new Set();
`;
  return `${again ? '' : definition}const slice = [];
for (let n = ${first}; n < ${first + count}; n += 1) slice.push(pieceAt(n));
const answers = await llmBatch(slice.map((piece, n) => promptFor(${number}, n + 1, piece)));
for (const [n, reply] of answers.entries()) {
  const { document } = slice[n];
  note(slice[n], reply);
  if (reply === null || known.has(reply)) continue;
  known.add(reply);
  perDocument.set(document, [...(perDocument.get(document) ?? []), reply]);
}
for (const [name, replies] of perDocument) print(name + ': ' + replies.length);`;
}

function queue({ number, first, count }: Round): string {
  return `let waiting = Array.from({ length: ${count} }, (_, n) => ({ part: n + 1, piece: pieceAt(${first} + n) }));
do {
  const [{ part, piece }, ...rest] = waiting;
  const reply = await llm(promptFor(${number}, part, piece));
  const { length } = reply;
  note(piece, reply);
  print({ part, length });
  waiting = rest;
} while (waiting.length > 0);`;
}

function generator({ number, first, count, again }: Round): string {
  const definition = `async function* replies(round, start, length) {
  for (let n = 0; n < length; n += 1) {
    const piece = pieceAt(start + n);
    yield [piece, await llm(promptFor(round, n + 1, piece))];
  }
}

`;
  return `${again ? '' : definition}for await (const [piece, reply] of replies(${number}, ${first}, ${count})) {
  note(piece, reply);
  print(reply.length > 160 ? reply.slice(0, 160) + '…' : reply);
}`;
}
