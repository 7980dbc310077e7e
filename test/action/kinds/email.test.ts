import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { type ActionKind, NoEffect, UndoRefused } from '../../../src/action/define-action.ts';
import type { EmailBefore, EmailOptions } from '../../../src/action/kinds/email-options.ts';
import type { QueueReply } from '../../../src/action/kinds/email-send.ts';
import { ACCOUNT, type DataFault, header, MailServer } from './mail-server.ts';
import { type Notice, noticeAction } from './notice-action.ts';

type EmailKind = ActionKind<Notice, EmailBefore, QueueReply>;

const KEY = createHash('sha256').update('a message').digest('hex');
const CORRECTION_KEY = createHash('sha256').update(`${KEY}/undo`).digest('hex');
const MESSAGE_ID = `<${KEY}@sender.example>`;
const CORRECTION_ID = `<${CORRECTION_KEY}@sender.example>`;
const ANNA = 'anna@customer.example';
const BEN = 'ben@customer.example';
const ARGS: Notice = { to: [ANNA], subject: 'Your invoice', text: 'It is attached.' };
const BOTH: Notice = { ...ARGS, to: [ANNA, BEN] };
const BEFORE: EmailBefore = { messageId: MESSAGE_ID, contentSha256: '' };

let server: MailServer;
beforeEach(async () => {
  server = await MailServer.start();
});

function context(key = KEY) {
  return { key, signal: AbortSignal.timeout(50_000) };
}

/** Looks into the server's mailbox, as a search of the sent folder does. */
const lookUp: NonNullable<EmailOptions<Notice>['lookUp']> = async ({ messageId }) => {
  const [found] = server.withId(messageId);
  if (found === undefined) return undefined;
  const to = header(found.raw, 'To') ?? '';
  return { evidence: { folder: 'Sent' }, recipients: to.split(', '), subject: header(found.raw, 'Subject') ?? '' };
};

/** Through JSON, as everything goes on its way through the database. */
function recorded<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Executes as the engine does; what went wrong is returned. */
async function executed(
  action: EmailKind,
  args = ARGS,
): Promise<{ before: EmailBefore; effect?: QueueReply; error?: Error }> {
  const precondition = await action.precondition(args, context());
  if (!precondition.holds) throw new Error(precondition.why);
  const before = recorded(precondition.before);
  try {
    return { before, effect: recorded(await action.execute(args, before, context())) };
  } catch (error) {
    return { before, error: error as Error };
  }
}

describe('a message', () => {
  test('goes out under an id made of the key', async () => {
    const { before, effect } = await executed(noticeAction(server.port));
    expect(before.messageId).toBe(MESSAGE_ID);
    expect(server.kept).toMatchObject([{ from: 'desk@sender.example', recipients: [ANNA], user: ACCOUNT.user }]);
    const raw = server.kept[0]?.raw ?? '';
    expect(header(raw, 'Message-ID')).toBe(MESSAGE_ID);
    expect(header(raw, 'From')).toBe('Night Desk <desk@sender.example>');
    expect(raw).toContain('It is attached.');
    expect(effect).toMatchObject({
      messageId: MESSAGE_ID,
      accepted: [ANNA],
      rejected: [],
      response: '250 queued as 1',
    });
  });

  test('that the server has queued is weak evidence: its own word', async () => {
    const action = noticeAction(server.port);
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({
      found: 'effect',
      strength: 'weak',
      evidence: { messageId: MESSAGE_ID, response: '250 queued as 1', accepted: [ANNA] },
    });
  });

  test('that is looked up is strong evidence', async () => {
    const action = noticeAction(server.port, { lookUp });
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({
      found: 'effect',
      strength: 'strong',
      evidence: { lookUp: { folder: 'Sent' } },
    });
  });

  test('found with another recipient or subject is something else', async () => {
    const action = noticeAction(server.port, { lookUp });
    const { before, effect } = await executed(action);
    const verify = (args: Notice) => action.verify(args, before, effect, context());
    expect(await verify({ ...ARGS, subject: 'Your refund' })).toMatchObject({ found: 'something else' });
    expect(await verify({ ...ARGS, to: [BEN] })).toMatchObject({
      found: 'something else',
      evidence: { differences: [`${BEN} is missing`, `${ANNA} was not intended`] },
    });
  });

  test('is shown to the approver as it will be sent', async () => {
    expect(await noticeAction(server.port).present?.(ARGS)).toMatchObject({
      message: { to: [{ address: ANNA }], subject: 'Your invoice', text: 'It is attached.' },
    });
  });

  test('waits for what the user has to say against it', async () => {
    const action = noticeAction(server.port, {
      precondition: ({ subject }) => subject !== 'Your invoice' || 'it is paid',
    });
    expect(await action.precondition(ARGS, context())).toEqual({ holds: false, why: 'it is paid' });
  });

  test('sent twice without a look-up arrives twice: only the engine keeps that from happening', async () => {
    const action = noticeAction(server.port);
    await executed(action);
    await executed(action);
    expect(server.withId(MESSAGE_ID)).toHaveLength(2);
    expect(action).toMatchObject({ enforcesKey: false, settleMs: 600_000 });
  });

  test('that the look-up finds is not sent again, and not reported as without effect', async () => {
    const action = noticeAction(server.port, { lookUp });
    await executed(action);
    const { error } = await executed(action);
    expect(error?.message).toContain('has been sent before');
    expect(error).not.toBeInstanceOf(NoEffect);
    expect(server.kept).toHaveLength(1);
  });
});

describe('after the text has gone out', () => {
  test.each<DataFault>(['cut', { refuse: 451 }, { refuse: 503 }])(
    'no final answer (%j) leaves it in question',
    async (fault) => {
      server.dataFaults.push(fault);
      const { error } = await executed(noticeAction(server.port));
      expect(error?.message).toContain('may be delivered all the same');
      expect(error).not.toBeInstanceOf(NoEffect);
    },
  );

  test('a final refusal means that it will not be delivered', async () => {
    server.dataFaults.push({ refuse: 554 });
    const { error } = await executed(noticeAction(server.port));
    expect(error).toBeInstanceOf(NoEffect);
    expect(error?.message).toContain('refused for its content');
  });

  test('the deadline leaves it in question', async () => {
    server.dataFaults.push('hold');
    const deadline = new AbortController();
    const kept = server.next('kept');
    const execution = noticeAction(server.port).execute(ARGS, BEFORE, { key: KEY, signal: deadline.signal });
    await kept;
    deadline.abort();
    await expect(execution).rejects.toThrow('may be delivered all the same');
  });

  test.each([true, false])(
    'a killed sender leaves it unknown, or found where it can be looked up (pipelining: %s)',
    async (pipelining) => {
      server = await MailServer.start({ pipelining });
      server.dataFaults.push('hold');
      const kept = server.next('kept');
      const child = startSender();
      await kept;
      await killed(child);
      expect(await noticeAction(server.port).verify(ARGS, BEFORE, undefined, context())).toMatchObject({
        found: 'unknown',
        evidence: { messageId: MESSAGE_ID },
      });
      const found = await noticeAction(server.port, { lookUp }).verify(ARGS, BEFORE, undefined, context());
      expect(found).toMatchObject({ found: 'effect', strength: 'strong' });
    },
  );
});

describe('before the text has gone out', () => {
  test.each([true, false])('a refusal of all recipients has no effect (pipelining: %s)', async (pipelining) => {
    server = await MailServer.start({ pipelining });
    server.refused.set(ANNA, 550).set(BEN, 450);
    const { error } = await executed(noticeAction(server.port), BOTH);
    expect(error).toBeInstanceOf(NoEffect);
    expect(error?.message).toContain('all recipients were rejected');
    expect(server.kept).toHaveLength(0);
  });

  test.each(['MAIL', 'RCPT'] as const)('a connection cut at %s has no effect', async (command) => {
    server.cutAt = command;
    const { error } = await executed(noticeAction(server.port));
    expect(error).toBeInstanceOf(NoEffect);
  });

  test('a connection cut before has no effect for a signed message either', async () => {
    server.cutAt = 'RCPT';
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const dkim = {
      domainName: 'sender.example',
      keySelector: 'night',
      privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    };
    const smtp = () => ({ host: '127.0.0.1', port: server.port, ignoreTLS: true, dkim });
    expect((await executed(noticeAction(server.port, { smtp }))).error).toBeInstanceOf(NoEffect);
    server.cutAt = undefined;
    expect((await executed(noticeAction(server.port, { smtp }))).error).toBeUndefined();
    expect(header(server.kept[0]?.raw ?? '', 'DKIM-Signature')).toContain('d=sender.example');
  });

  test('a wrong password has no effect, and is not repeated in the error', async () => {
    const pass = 'wr0ng-p4ssword';
    const smtp = () => ({
      host: '127.0.0.1',
      port: server.port,
      auth: { user: 'night', pass },
      tls: { rejectUnauthorized: false },
    });
    const { error } = await executed(noticeAction(server.port, { smtp }));
    expect(error).toBeInstanceOf(NoEffect);
    expect(error?.message).toContain('535 Invalid credentials night [secret]');
  });

  test('a server that offers no encryption does not get the password', async () => {
    server = await MailServer.start({ tls: false });
    const { error } = await executed(noticeAction(server.port));
    expect(error).toBeInstanceOf(NoEffect);
    const smtp = () => ({ host: '127.0.0.1', port: server.port, auth: ACCOUNT, ignoreTLS: true });
    expect((await executed(noticeAction(server.port, { smtp }))).error, 'unless that was asked for').toBeUndefined();
    expect(server.kept).toHaveLength(1);
  });

  test('nobody listening has no effect', async () => {
    const nobody = createServer().listen(0, '127.0.0.1');
    await once(nobody, 'listening');
    const { port } = nobody.address() as { port: number };
    nobody.close();
    await once(nobody, 'close');
    expect((await executed(noticeAction(port))).error).toBeInstanceOf(NoEffect);
  });

  test('a passed deadline has no effect', async () => {
    const sending = noticeAction(server.port).execute(ARGS, BEFORE, { key: KEY, signal: AbortSignal.abort() });
    await expect(sending).rejects.toThrow(NoEffect);
    expect(server.kept).toHaveLength(0);
  });

  test('no credentials, or a look-up that fails, has no effect', async () => {
    const sealed = () => Promise.reject(new Error('the vault is sealed'));
    expect((await executed(noticeAction(server.port, { smtp: sealed }))).error).toBeInstanceOf(NoEffect);
    expect((await executed(noticeAction(server.port, { lookUp: sealed }))).error).toBeInstanceOf(NoEffect);
    expect(server.kept).toHaveLength(0);
  });

  test('a killed sender is never taken for one that has not sent, unless a look-up says so', async () => {
    server.cutAt = 'RCPT';
    const reached = server.next('RCPT');
    const child = startSender();
    await reached;
    await killed(child);
    expect(await noticeAction(server.port).verify(ARGS, BEFORE, undefined, context())).toMatchObject({
      found: 'unknown',
    });
    const found = await noticeAction(server.port, { lookUp }).verify(ARGS, BEFORE, undefined, context());
    expect(found).toMatchObject({ found: 'nothing' });
  });
});

describe('the look-up', () => {
  test('that does not find what the server has taken may lag behind: nothing is concluded', async () => {
    const action = noticeAction(server.port, { lookUp });
    const { before, effect } = await executed(action);
    server.kept.splice(0);
    await expect(action.verify(ARGS, before, effect, context())).rejects.toThrow('does not find it yet');
  });

  test('that fails is an error, not a finding', async () => {
    const failing = () => Promise.reject(new Error('IMAP is down'));
    await expect(
      noticeAction(server.port, { lookUp: failing }).verify(ARGS, BEFORE, undefined, context()),
    ).rejects.toThrow('IMAP is down');
  });
});

describe('some recipients refused', () => {
  test.each([true, false])('is something else than intended (look-up: %s)', async (hasLookUp) => {
    server.refused.set(BEN, 550);
    const action = noticeAction(server.port, hasLookUp ? { lookUp } : {});
    const { before, effect } = await executed(action, BOTH);
    expect(await action.verify(BOTH, before, effect, context())).toMatchObject({
      found: 'something else',
      evidence: { accepted: [ANNA], rejected: [{ recipient: BEN, response: `550 no mailbox ${BEN}` }] },
    });
  });
});

describe('a correction', () => {
  async function correct(action: EmailKind, done: { before: EmailBefore; effect?: QueueReply }, args = ARGS) {
    if (action.rollback.kind !== 'compensating') throw new Error('it has no correction');
    await action.rollback.undo(
      { args, before: done.before, effect: done.effect, seen: undefined },
      context(CORRECTION_KEY),
    );
  }

  function readBack(action: EmailKind, { before, effect }: { before: EmailBefore; effect?: QueueReply }, args = ARGS) {
    if (action.rollback.kind !== 'compensating') throw new Error('it has no correction');
    return action.rollback.readBack({ args, before, effect, seen: undefined }, context(CORRECTION_KEY));
  }

  test('answers to the first message, under its own id, and is read back', async () => {
    const action = noticeAction(server.port, { lookUp });
    const done = await executed(action);
    await correct(action, done);
    const raw = server.kept[1]?.raw ?? '';
    expect(header(raw, 'Message-ID')).toBe(CORRECTION_ID);
    expect(header(raw, 'In-Reply-To')).toBe(MESSAGE_ID);
    expect(header(raw, 'References')).toBe(MESSAGE_ID);
    expect(await readBack(action, done)).toMatchObject({ found: 'effect', strength: 'strong' });
  });

  test("rests on the server's word where there is no look-up, and on nothing in another process", async () => {
    const action = noticeAction(server.port);
    const done = await executed(action);
    await correct(action, done);
    expect(await readBack(action, done)).toMatchObject({ found: 'effect', strength: 'weak' });
    expect(await readBack(noticeAction(server.port), done)).toMatchObject({ found: 'unknown' });
  });

  test.each([true, false])('is sent once, however often it is asked for (look-up: %s)', async (hasLookUp) => {
    const action = noticeAction(server.port, hasLookUp ? { lookUp } : {});
    const done = await executed(action);
    await correct(action, done);
    await correct(action, done);
    if (hasLookUp) await correct(noticeAction(server.port, { lookUp }), done); // another process
    expect(server.withId(CORRECTION_ID)).toHaveLength(1);
  });

  test('that is in question is not sent again', async () => {
    const action = noticeAction(server.port);
    const done = await executed(action);
    server.dataFaults.push('cut');
    await expect(correct(action, done)).rejects.toThrow('may be delivered all the same');
    expect(await readBack(action, done)).toMatchObject({ found: 'unknown' });
    await expect(correct(action, done)).rejects.toThrow(UndoRefused);
    expect(server.withId(CORRECTION_ID)).toHaveLength(1);
  });

  test('that certainly did not go out may be tried again', async () => {
    const action = noticeAction(server.port);
    const done = await executed(action);
    server.refused.set(ANNA, 450);
    await expect(correct(action, done)).rejects.toThrow('the correction was not sent');
    expect(await readBack(action, done)).toMatchObject({ found: 'nothing' });
    server.refused.clear();
    await correct(action, done);
    expect(server.withId(CORRECTION_ID)).toHaveLength(1);
  });

  test('goes to nobody who has not got the message', async () => {
    server.refused.set(BEN, 550);
    const action = noticeAction(server.port);
    const done = await executed(action, BOTH);
    server.refused.clear();
    await correct(action, done, BOTH);
    expect(server.kept.map(({ recipients }) => recipients)).toEqual([[ANNA], [ANNA]]);
    expect(await readBack(action, done, BOTH)).toMatchObject({ found: 'effect' });
  });

  test('of a message that may never have gone out is refused', async () => {
    await expect(correct(noticeAction(server.port), { before: BEFORE })).rejects.toThrow(UndoRefused);
    await expect(correct(noticeAction(server.port, { lookUp }), { before: BEFORE })).rejects.toThrow(UndoRefused);
    expect(server.kept).toHaveLength(0);
  });
});

describe('arguments', () => {
  const broken: [string, Partial<Notice>][] = [
    ['a line break in the subject', { subject: 'Hello\r\nBcc: eve@elsewhere.example' }],
    ['a bare line feed in the subject', { subject: 'Hello\nX-Evil: yes' }],
    ['a line break in an address', { to: [`${ANNA}\r\nRCPT TO:<eve@elsewhere.example>`] }],
    ['a line break in a name', { to: [`"Anna\r\nBcc: eve@elsewhere.example" <${ANNA}>`] }],
    ['two addresses where one belongs', { to: [`${ANNA}, eve@elsewhere.example`] }],
    ['a group of addresses', { to: [`all: ${ANNA}, eve@elsewhere.example;`] }],
    ['an address within an address', { to: [`${ANNA}> <eve@elsewhere.example`] }],
    ['no address', { to: ['anna'] }],
    ['nobody', { to: [] }],
    ['a file to read for a text', { text: { path: '/etc/passwd' } as unknown as string }],
  ];
  test.each(broken)('%s are refused, at the precondition and at the execution', async (_what, part) => {
    const action = noticeAction(server.port);
    const args = { ...ARGS, ...part };
    expect(await action.precondition(args, context())).toMatchObject({ holds: false });
    await expect(action.execute(args, BEFORE, context())).rejects.toThrow(NoEffect);
    expect(server.kept).toHaveLength(0);
  });

  test.each(['Message-ID', 'bcc', 'In-Reply-To', 'X-A\r\nBcc', 'Content-Type'])(
    'cannot set the header %j',
    async (name) => {
      const message = ({ to, subject, text }: Notice) => ({
        from: 'desk@sender.example',
        to,
        subject,
        text,
        headers: { [name]: 'x' },
      });
      expect(await noticeAction(server.port, { message }).precondition(ARGS, context())).toMatchObject({
        holds: false,
      });
    },
  );

  test('arrive as they are: text, html, names, other headers, attachments', async () => {
    const message = ({ to, subject, text }: Notice) => ({
      from: { name: 'Nacht, Tag & "Co"', address: 'desk@sender.example' },
      to: to.map((address) => ({ name: 'Anna, die', address })),
      bcc: 'audit@sender.example',
      subject,
      text,
      html: '<p>x</p>',
      headers: { 'X-Case': '215' },
      attachments: [{ filename: 'a.txt', content: Buffer.from('attached'), contentType: 'text/plain' }],
    });
    const action = noticeAction(server.port, { message });
    const { error } = await executed(action, { ...ARGS, subject: 'Größe: 5 €' });
    expect(error).toBeUndefined();
    const [kept] = server.kept;
    expect(kept?.recipients).toEqual([ANNA, 'audit@sender.example']);
    expect(header(kept?.raw ?? '', 'Bcc')).toBeUndefined();
    expect(header(kept?.raw ?? '', 'X-Case')).toBe('215');
    expect(header(kept?.raw ?? '', 'To')).toBe(`"Anna, die" <${ANNA}>`);
    expect(header(kept?.raw ?? '', 'Subject')).toMatch(/^=\?UTF-8\?/);
    expect(kept?.raw).toContain(Buffer.from('attached').toString('base64'));
  });
});

describe('the password', () => {
  test.each<DataFault | undefined>([undefined, 'cut', { refuse: 554 }])(
    'turns up in nothing that is returned or thrown (%j)',
    async (fault) => {
      const said: unknown[] = [];
      const action = noticeAction(server.port, {
        lookUp: async () => {
          throw new Error(`smtps://${ACCOUNT.user}:${ACCOUNT.pass}@127.0.0.1 does not answer`);
        },
      });
      const plain = noticeAction(server.port, {
        message: (args) => ({ from: 'desk@sender.example', ...args, text: ACCOUNT.pass }),
      });
      if (fault !== undefined) server.dataFaults.push(fault);
      const done = await executed(plain);
      expect(server.kept.length + server.dataFaults.length, 'the server was reached').toBe(
        typeof fault === 'object' ? 0 : 1,
      );
      said.push(done, done.error?.message, done.error?.stack, done.error?.cause);
      said.push(await plain.verify(ARGS, done.before, done.effect, context()), await plain.present?.(ARGS));
      const failed = await executed(action);
      said.push(failed, failed.error?.message, failed.error?.stack);
      said.push(
        await action
          .verify(ARGS, BEFORE, undefined, context())
          .catch((error: Error) => `${error.message}${error.stack}`),
      );
      const text = JSON.stringify(said);
      expect(text).toContain(MESSAGE_ID);
      expect(text).not.toContain(Buffer.from(`\0${ACCOUNT.user}\0${ACCOUNT.pass}`).toString('base64'));
      expect(text).not.toContain(Buffer.from(ACCOUNT.pass).toString('base64'));
      expect(text).not.toContain(`:${ACCOUNT.pass}@`);
    },
  );
});

function startSender(): ChildProcess {
  const script = join(import.meta.dirname, 'send-notice.ts');
  return spawn(process.execPath, [script, String(server.port), KEY, ANNA], { stdio: 'ignore' });
}

/** Kills it, and waits until it is dead. */
async function killed(child: ChildProcess): Promise<void> {
  const dead = once(child, 'exit');
  child.kill('SIGKILL');
  await dead;
}
