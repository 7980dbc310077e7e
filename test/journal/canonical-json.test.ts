import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson } from '../../src/journal/canonical-json.ts';

/** The lexemes of numbers, as a document may spell them. */
const numberLexeme = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constantFrom('0', '1', '10', '12345678901234567890'), fc.nat().map(String)),
    fc.constantFrom('', '.0', '.5', '.50', '.000000000000000000001'),
    fc.constantFrom('', 'e0', 'E0', 'e+2', 'e-7', 'e400'),
  )
  .map((parts) => parts.join(''));

interface Document {
  text: string;
  /** The same content, members in the reverse order, with white space wherever JSON allows it. */
  shuffled: string;
}

const key = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'rawJSON', '2', '10', 'é', '\u0000'));

const { document } = fc.letrec<{ document: Document }>((tie) => ({
  document: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc
      .oneof(
        numberLexeme,
        fc.constantFrom('true', 'false', 'null'),
        fc.string().map((text) => JSON.stringify(text)),
      )
      .map((text) => ({ text, shuffled: ` ${text}\n` })),
    fc.array(tie('document'), { maxLength: 4 }).map((items) => ({
      text: `[${items.map((item) => item.text).join(',')}]`,
      shuffled: `[ ${items.map((item) => item.shuffled).join(' ,\t')} ]`,
    })),
    fc.uniqueArray(fc.tuple(key, tie('document')), { maxLength: 5, selector: ([name]) => name }).map((members) => ({
      text: `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value.text}`).join(',')}}`,
      shuffled: `{\r\n${members
        .toReversed()
        .map(([name, value]) => `${JSON.stringify(name)} : ${value.shuffled}`)
        .join(',\n')}}`,
    })),
  ),
}));

/** All number lexemes of a text, outside of strings, sorted. */
function numbersIn(text: string): string[] {
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return (outside.match(/-?\d[\d.eE+-]*/g) ?? []).sort();
}

test('the order of an object’s members and white space make no difference', () => {
  fc.assert(fc.property(document, ({ text, shuffled }) => canonicalJson(text) === canonicalJson(shuffled)));
});

test('the canonical form means the same as the text', () => {
  fc.assert(
    fc.property(document, ({ text }) => {
      expect(JSON.parse(canonicalJson(text))).toEqual(JSON.parse(text));
    }),
  );
});

test('the canonical form of a canonical form is itself', () => {
  fc.assert(fc.property(document, ({ text }) => canonicalJson(canonicalJson(text)) === canonicalJson(text)));
});

test('every number keeps the spelling it had', () => {
  fc.assert(
    fc.property(document, ({ text }) => {
      expect(numbersIn(canonicalJson(text))).toEqual(numbersIn(text));
    }),
  );
});

test('two different spellings of a number are two different documents', () => {
  fc.assert(
    fc.property(
      numberLexeme,
      numberLexeme,
      (a, b) => (a === b) === (canonicalJson(`[${a}]`) === canonicalJson(`[${b}]`)),
    ),
  );
});

test('the order of an array’s items makes a difference', () => {
  expect(canonicalJson('[1,2]')).not.toBe(canonicalJson('[2,1]'));
});

test('a number and the string of it differ', () => {
  expect(canonicalJson('{"a":1}')).not.toBe(canonicalJson('{"a":"1"}'));
});

test('a member named like the mark of a raw number is a member like any other', () => {
  expect(canonicalJson('{"rawJSON":"2","a":1.0}')).toBe('{"a":1.0,"rawJSON":"2"}');
});

for (const text of ['', '{', '{"a":}', '[1,]', '01', 'NaN', '{"a":1} trailing'])
  test(`${JSON.stringify(text)} is not JSON and is said to be none`, () => {
    expect(() => canonicalJson(text)).toThrow(SyntaxError);
  });
