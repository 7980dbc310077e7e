import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventStreamReader, errorMessage, errorType } from '../../src/provider/event-stream.ts';
import { streamEvents } from '../support/scripted-provider.ts';

/** What a reader has understood. */
function read(...chunks: (string | Uint8Array)[]) {
  const reader = new EventStreamReader();
  for (const chunk of chunks) reader.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  return { facts: reader.facts, isComplete: reader.isComplete, hasBegun: reader.hasBegun, error: reader.error };
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function messageStart(usage: object): string {
  return event({ type: 'message_start', message: { id: 'msg_1', model: 'claude-haiku-4-5', usage } });
}

/** Bytes cut at arbitrary places. */
function chunksOf(bytes: Buffer): fc.Arbitrary<Uint8Array[]> {
  return fc.array(fc.nat({ max: bytes.length }), { maxLength: 12 }).map((cuts) => {
    const places = [0, ...cuts.sort((a, b) => a - b), bytes.length];
    return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
  });
}

for (const [separator, name] of [
  ['\n', 'LF'],
  ['\r\n', 'CRLF'],
  ['\r', 'CR'],
] as const)
  test(`however the bytes of a stream are cut, it is understood the same (lines ended by ${name})`, () => {
    const text = [
      ...streamEvents(1, 'Ünïcödé 🌙 text'),
      'data: {"type":"error","error":{"type":"overloaded_error","message":"später 🌙"}}\n\n',
    ].join('');
    const bytes = Buffer.from(text.replaceAll('\n', separator));
    const whole = read(bytes);
    expect(whole).toMatchObject({ isComplete: true, facts: { messageId: 'msg_1', usage: { outputTokens: 20 } } });
    expect(whole.error).toContain('später 🌙');
    fc.assert(
      fc.property(chunksOf(bytes), (chunks) => {
        expect(read(...chunks)).toEqual(whole);
      }),
    );
  });

test('a stream is complete at its last event and not before', () => {
  const events = streamEvents(1, 'text');
  expect(events.map((_, index) => read(...events.slice(0, index + 1)).isComplete)).toEqual([
    ...[false, false, false, false, false],
    true,
  ]);
});

for (const last of [
  'data: [DONE]\n\n',
  event({ type: 'response.completed', response: { id: 'r' } }),
  event({ type: 'response.incomplete', response: { id: 'r' } }),
])
  test(`${last.trim()} is the last event of an answer`, () => {
    expect(read(event({ type: 'response.created' }), last).isComplete).toBe(true);
  });

test('the usage of the last event counts, not the placeholder of the first', () => {
  const { facts } = read(
    messageStart({ input_tokens: 10, output_tokens: 1 }),
    event({ type: 'message_delta', usage: { output_tokens: 2000 } }),
  );
  expect(facts.usage).toMatchObject({ inputTokens: 10, outputTokens: 2000 });
});

test('a last event that counts the input again replaces the first count', () => {
  const { facts } = read(
    messageStart({ input_tokens: 10, output_tokens: 1 }),
    event({ type: 'message_delta', usage: { input_tokens: 4000, output_tokens: 7 } }),
  );
  expect(facts.usage).toMatchObject({ inputTokens: 4000, outputTokens: 7 });
});

test('one-hour cache writes stay one-hour writes when the last event gives only their sum', () => {
  const { facts } = read(
    messageStart({
      input_tokens: 10,
      cache_creation_input_tokens: 300,
      cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 },
      output_tokens: 1,
    }),
    event({
      type: 'message_delta',
      usage: { input_tokens: 10, cache_creation_input_tokens: 300, cache_read_input_tokens: 0, output_tokens: 7 },
    }),
  );
  expect(facts.usage).toMatchObject({ cacheWrite5mTokens: 100, cacheWrite1hTokens: 200 });
});

test('a usage chunk of an OpenAI stream is read', () => {
  const { facts, isComplete } = read(
    event({ id: 'c1', model: 'gpt', choices: [], usage: null }),
    event({ id: 'c1', model: 'gpt', choices: [], usage: { prompt_tokens: 5, completion_tokens: 6 } }),
    'data: [DONE]\n\n',
  );
  expect(facts).toMatchObject({ messageId: 'c1', model: 'gpt', usage: { inputTokens: 5, outputTokens: 6 } });
  expect(isComplete).toBe(true);
});

test('comments, pings and data that is not JSON neither begin an answer nor end it', () => {
  expect(read(': keep-alive\n\n', event({ type: 'ping' }), 'data: {"cut off\n\n', 'retry: 5\n\n')).toMatchObject({
    hasBegun: false,
    isComplete: false,
    error: undefined,
  });
});

test('an error event is no beginning of an answer; what follows a message_start is', () => {
  const error = event({ type: 'error', error: { type: 'overloaded_error', message: 'no' } });
  expect(read(error).hasBegun).toBe(false);
  expect(read(messageStart({}), error).hasBegun).toBe(true);
});

test('the message of an error body is found, or the beginning of what came instead', () => {
  expect(errorMessage('{"error":{"type":"api_error","message":"broken"}}')).toBe('broken');
  expect(errorMessage('{"error":{"type":"api_error"}}')).toBe('api_error');
  expect(errorMessage(`<html>${'x'.repeat(1000)}`)).toBe(`<html>${'x'.repeat(194)}`);
  expect(errorMessage('')).toBe('no message');
});

test('the type of an error body is found where there is one', () => {
  expect(errorType('{"error":{"type":"api_error"}}')).toBe('api_error');
  expect(errorType('{"error":"api_error"}')).toBeUndefined();
  expect(errorType('nonsense')).toBeUndefined();
});

test('a line of ten megabytes in many chunks is read', () => {
  const line = Buffer.from(event({ type: 'message_stop', padding: 'x'.repeat(10_000_000) }));
  const reader = new EventStreamReader();
  for (let from = 0; from < line.length; from += 16_384) reader.push(line.subarray(from, from + 16_384));
  expect(reader.isComplete).toBe(true);
});

for (const [name, last] of [
  ['its last event', 'data: {"type":"message_stop"}'],
  ['an error', 'data: {"type":"error","error":{"type":"api_error"}}'],
] as const)
  for (const lineEnd of ['\n', '\r\n'])
    test(`a stream is over with ${name} and the empty line that follows (${JSON.stringify(lineEnd)}), not before`, () => {
      const reader = new EventStreamReader();
      const isOver = [...`data: {}${lineEnd}${lineEnd}${last}${lineEnd}${lineEnd}`].map((byte) => {
        reader.push(Buffer.from(byte));
        return reader.isOver;
      });
      expect(isOver.indexOf(true)).toBe(isOver.length - 1);
    });
