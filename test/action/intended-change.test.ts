import { expect, test } from 'vitest';
import { intendedChange } from '../../src/action/intended-change.ts';
import { noticeAction } from './kinds/notice-action.ts';

const change = (kind: string, present: unknown) => intendedChange(kind, JSON.stringify(present));
const BODY = '{"amount":9007199254740993.10}';
const PRETTY = '{\n  "amount": 9007199254740993.10\n}';

test('a PUT is compared with what stands at its address, digit by digit', () => {
  const request = { method: 'PUT', url: 'https://a.example/1', body: BODY };
  expect(change('http', { url: request.url, status: 200, content: '{"amount":5.00}', request })).toEqual({
    what: 'PUT https://a.example/1',
    before: '{\n  "amount": 5.00\n}',
    after: PRETTY,
  });
});

test('a POST is not compared with the resource that its precondition reads', () => {
  const request = { method: 'POST', url: 'https://a.example/payments', body: BODY };
  expect(change('http', { url: 'https://a.example/account', status: 200, content: '{}', request })).toEqual({
    what: 'POST https://a.example/payments',
    before: undefined,
    after: PRETTY,
  });
});

test('a message is shown as it will be sent: from whom, to all who get it, what about', async () => {
  const notice = { to: ['anna@a.example', 'ben@b.example'], subject: 'Your invoice', text: 'It is\nattached.' };
  expect(change('email', await noticeAction(9).present?.(notice))).toEqual({
    what: 'the message',
    before: undefined,
    after:
      'From: Night Desk <desk@sender.example>\nTo: anna@a.example, ben@b.example\nSubject: Your invoice\n\nIt is\nattached.',
  });
});

test('a new file has nothing to be compared with; what is no text is named by its hash', () => {
  const intended = { sha256: 'ab', bytes: 3 };
  expect(change('file', { path: '/a', sha256: null, bytes: 0, intended })).toEqual({
    what: '/a (new)',
    before: undefined,
    after: '3 bytes that are no text, sha256 ab',
  });
});

test.each([
  ['a target that could not be read', 'postgres', { unreadable: 'it is away' }],
  ['a kind of one’s own', 'fax', { rows: [] }],
  ['nothing', 'email', null],
])('%s has no change to show', (_, kind, present) => {
  expect(change(kind, present)).toBeUndefined();
});
