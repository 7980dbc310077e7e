import { describe, expect, test } from 'vitest';
import { foldLines } from '../../src/cli/fold-lines.ts';
import { terminalText } from '../../src/cli/terminal-text.ts';

describe('long lines', () => {
  test('are broken at a space, and their margin stays', () => {
    expect(foldLines('  │ one two three four five six\nshort', 26)).toBe('  │ one two three four\n  │ five six\nshort');
  });

  test('are broken anywhere where there is no space near', () => {
    expect(foldLines('x'.repeat(50), 20)).toBe([20, 20, 10].map((count) => 'x'.repeat(count)).join('\n'));
  });

  test('lose nothing: a character of two halves stays whole', () => {
    expect(foldLines('😀'.repeat(30), 25)).toBe(`${'😀'.repeat(25)}\n${'😀'.repeat(5)}`);
  });

  test('stay as they are where there is no width', () => {
    expect(foldLines('x'.repeat(500), Infinity)).toBe('x'.repeat(500));
  });
});

describe('text for a terminal', () => {
  test('has control characters spelled out, but line feeds and tabs', () => {
    expect(terminalText('a\tb\n\x1b[2J\x07\x9bm\x7f\u202e')).toBe('a\tb\n\\x1b[2J\\x07\\x9bm\\x7f\\u202e');
  });

  test('takes a carriage return for one only at the end of a line', () => {
    expect(terminalText('a\r\nb\rc')).toBe('a\nb\\x0dc');
  });

  test('keeps what people write', () => {
    expect(terminalText('licença — “três” 👩‍💻 日本')).toBe('licença — “três” 👩‍💻 日本');
  });
});
