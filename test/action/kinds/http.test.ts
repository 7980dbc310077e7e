import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type ActionKind, NoEffect, UndoRefused } from '../../../src/action/define-action.ts';
import { httpAction } from '../../../src/action/kinds/http.ts';
import type { HttpBefore, HttpEffect, HttpOptions } from '../../../src/action/kinds/http-options.ts';
import { until } from '../../support/until.ts';
import { BEARER, type Payment, paymentAction, paymentOptions } from './payment-action.ts';
import { type Fault, ResourceServer } from './resource-server.ts';

type HttpKind = ActionKind<Payment, HttpBefore, HttpEffect>;

const KEY = createHash('sha256').update('a payment').digest('hex');
const ARGS: Payment = { account: 'a1', amount: 82_000 };
const ACCOUNT = '/accounts/a1';

let server: ResourceServer;
beforeEach(async () => {
  server = await ResourceServer.start();
});

function context(key = KEY) {
  return { key, signal: AbortSignal.timeout(50_000) };
}

/** Sets the amount of an account: an update of what is there. */
function accountAction(more: Partial<HttpOptions<Payment>> = {}) {
  return httpAction<Payment>({
    method: 'PUT',
    url: ({ account }) => `${server.url}/accounts/${account}`,
    body: ({ account, amount }) => ({ account, amount }),
    headers: () => ({ authorization: `Bearer ${BEARER}` }),
    resource: ({ account }) => `${server.url}/accounts/${account}`,
    rollback: { kind: 'in-band', plan: 'puts back what was there' },
    ...more,
  });
}

/** Through JSON, as everything goes on its way through the database. */
function recorded<T>(value: T): T {
  return value === undefined ? value : (JSON.parse(JSON.stringify(value)) as T);
}

async function beforeOf(action: HttpKind, args = ARGS): Promise<HttpBefore> {
  const precondition = await action.precondition(args, context());
  if (!precondition.holds) throw new Error(precondition.why);
  return recorded(precondition.before);
}

/** Executes as the engine does; what went wrong is returned. */
async function executed(
  action: HttpKind,
  args = ARGS,
): Promise<{ before: HttpBefore; effect?: HttpEffect; error?: Error }> {
  const before = await beforeOf(action, args);
  try {
    return { before, effect: recorded(await action.execute(args, before, context())) };
  } catch (error) {
    return { before, error: error as Error };
  }
}

async function undo(
  action: HttpKind,
  done: { before: HttpBefore; effect?: HttpEffect | undefined },
  seen?: unknown,
  key = KEY,
) {
  const { rollback } = action;
  if (rollback.kind !== 'in-band' && rollback.kind !== 'compensating') throw new Error('it has no undo');
  await rollback.undo({ args: ARGS, before: done.before, effect: done.effect, seen: recorded(seen) }, context(key));
}

describe('an effect', () => {
  test('carries the key and is read back', async () => {
    const action = paymentAction(server.url);
    const { before, effect } = await executed(action);
    expect(server.writes).toMatchObject([
      { method: 'POST', path: '/payments', body: '{"account":"a1","amount":82000}' },
    ]);
    expect(server.writes[0]?.headers['idempotency-key']).toBe(KEY);
    expect(effect).toMatchObject({ status: 201, body: { id: '1', amount: 82_000 } });
    const found = await action.verify(ARGS, before, effect, context());
    expect(found).toMatchObject({ found: 'effect', strength: 'strong', evidence: { status: 200 } });
  });

  test('is made once by two executions at a target that takes each key once', async () => {
    const action = paymentAction(server.url, { enforcesKey: true });
    const before = await beforeOf(action);
    await action.execute(ARGS, before, context());
    await action.execute(ARGS, before, context());
    expect(server.writes).toHaveLength(2);
    expect(server.effects).toBe(1);
    expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'effect' });
  });

  test('made twice by a target that ignores keys does not pass as what was intended', async () => {
    server.honoursKeys = false;
    const action = paymentAction(server.url);
    const before = await beforeOf(action);
    await action.execute(ARGS, before, context());
    await action.execute(ARGS, before, context());
    expect(server.effects).toBe(2);
    const found = await action.verify(ARGS, before, undefined, context());
    expect(found).toMatchObject({
      found: 'something else',
      evidence: { note: '2 resources are found for one action' },
    });
  });

  test('is not taken to be forbidden twice by the target unless that is declared', () => {
    expect(paymentAction(server.url)).toMatchObject({ kind: 'http', enforcesKey: false, settleMs: 60_000 });
    expect(paymentAction(server.url, { enforcesKey: true, settleMs: 5 })).toMatchObject({
      enforcesKey: true,
      settleMs: 5,
    });
  });

  test.each<Fault>(['cut', '500 after'])(
    'whose answer is lost (%s) is in question, and found by reading back',
    async (fault) => {
      server.faults.push(fault);
      const action = paymentAction(server.url);
      const { before, error } = await executed(action);
      expect(error).toBeInstanceOf(Error);
      expect(error).not.toBeInstanceOf(NoEffect);
      expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'effect' });
      expect(server.writes).toHaveLength(1);
    },
  );

  test('that could be repeated without harm is not repeated either', async () => {
    server.faults.push('cut before');
    const { error } = await executed(accountAction());
    expect(error?.message).toContain('no answer came');
    expect(server.writes).toHaveLength(1);
  });

  test('that was cut off before it took place is in question too, and found to be absent', async () => {
    server.faults.push('cut before');
    const action = paymentAction(server.url);
    const { before, error } = await executed(action);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(NoEffect);
    expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'nothing' });
  });

  test('is given up at the deadline, in question', async () => {
    server.faults.push('stall');
    const action = paymentAction(server.url);
    const before = await beforeOf(action);
    const deadline = new AbortController();
    const applied = server.applied();
    const execution = action.execute(ARGS, before, { key: KEY, signal: deadline.signal });
    await applied;
    deadline.abort(new Error('the deadline has passed'));
    await expect(execution).rejects.toThrow('the deadline has passed');
    await expect(execution).rejects.not.toBeInstanceOf(NoEffect);
    expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'effect' });
  });

  test('of an executor killed between sending and return is found by its key', async () => {
    server.faults.push('stall');
    const applied = server.applied();
    const script = join(import.meta.dirname, 'execute-payment.ts');
    const child = spawn(process.execPath, [script, server.url, KEY], { stdio: ['ignore', 'ignore', 'inherit'] });
    await applied;
    child.kill('SIGKILL');
    expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
    const action = paymentAction(server.url);
    const before: HttpBefore = { key: KEY, resource: null, condition: null };
    expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'effect' });
  });

  test('without a way to find it cannot be told after a crash, and is found by the answer otherwise', async () => {
    const action = paymentAction(server.url, {
      pick: undefined as never,
      resource: (_args, { created }) => created && `${server.url}/payments/${(created.body as { id: string }).id}`,
    });
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, undefined, context())).toMatchObject({ found: 'unknown' });
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({ found: 'effect' });
  });

  test('that a target has only accepted is unknown until it shows', async () => {
    server.faults.push('accepted only');
    const action = paymentAction(server.url, { enforcesKey: true });
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({ found: 'unknown' });
  });

  test('is looked for again while what the target shows may lag behind', async () => {
    const action = paymentAction(server.url, { lagMs: 40_000 });
    server.faults.push('ignored');
    const { before, effect } = await executed(action);
    const verifying = action.verify(ARGS, before, effect, context());
    const gets = () => server.seen.filter(({ method }) => method === 'GET').length;
    const atFirst = gets();
    await until('it has looked a second time', () => gets() >= atFirst + 2);
    server.set('/payments/9', `{"reference":"${KEY}","account":"a1","amount":82000}`);
    expect(await verifying).toMatchObject({ found: 'effect' });
  });
});

describe('the answer', () => {
  test.each([400, 401, 403, 404, 405, 410, 412, 413, 415, 422, 423, 428, 429, 451])(
    '%i means that nothing was done',
    async (status) => {
      server.faults.push(status);
      const { error } = await executed(paymentAction(server.url));
      expect(error).toBeInstanceOf(NoEffect);
      expect(error?.message).toContain(`HTTP ${status}`);
    },
  );

  test.each([402, 406, 408, 409, 424, 500, 502, 503, 504])(
    '%i leaves in question whether it was done',
    async (status) => {
      server.faults.push(status);
      const { error } = await executed(paymentAction(server.url));
      expect(error).toBeInstanceOf(Error);
      expect(error).not.toBeInstanceOf(NoEffect);
    },
  );

  test('422 may mean, where keys are enforced, that an earlier request with this key was done', async () => {
    server.faults.push(422);
    const { error } = await executed(paymentAction(server.url, { enforcesKey: true }));
    expect(error).not.toBeInstanceOf(NoEffect);
  });

  test('that redirects is not followed', async () => {
    server.faults.push('redirect');
    const { error } = await executed(paymentAction(server.url));
    expect(error).not.toBeInstanceOf(NoEffect);
    expect(error?.message).toContain('HTTP 307, pointing to');
    expect(server.writes).toHaveLength(1);
  });

  test('from nobody means that nothing was sent', async () => {
    const action = paymentAction(server.url);
    const before = await beforeOf(action);
    const nobody = createServer().listen(0, '127.0.0.1');
    await once(nobody, 'listening');
    const { port } = nobody.address() as { port: number };
    nobody.close();
    await once(nobody, 'close');
    await expect(paymentAction(`http://127.0.0.1:${port}`).execute(ARGS, before, context())).rejects.toThrow(NoEffect);
  });

  test('that is too large is no reason to think that nothing was done', async () => {
    const action = paymentAction(server.url, { maxBytes: 60 });
    const { effect } = await executed(action);
    expect(effect).toEqual({ status: 201, location: `${server.url}/payments/1`, etag: '"v1"' });
    await expect(action.verify(ARGS, await beforeOf(paymentAction(server.url)), effect, context())).rejects.toThrow(
      'more than 60 bytes',
    );
  });
});

describe('nothing is sent', () => {
  test('when the deadline passes before the connection is ready', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    const deadline = new AbortController();
    const before: HttpBefore = { key: KEY, resource: null, condition: null };
    const connected = once(silent, 'connection') as Promise<[Socket]>;
    const execution = paymentAction(`https://127.0.0.1:${port}`).execute(ARGS, before, {
      key: KEY,
      signal: deadline.signal,
    });
    const [socket] = await connected; // and the server never shakes hands
    deadline.abort();
    await expect(execution).rejects.toThrow(NoEffect);
    socket.destroy();
  });

  test('once the deadline has passed', async () => {
    const action = paymentAction(server.url);
    const before = await beforeOf(action);
    await expect(action.execute(ARGS, before, { key: KEY, signal: AbortSignal.abort() })).rejects.toThrow(NoEffect);
    expect(server.writes).toHaveLength(0);
  });

  test('when the credentials cannot be had', async () => {
    const action = paymentAction(server.url, {
      headers: () => {
        throw new Error('the vault is sealed');
      },
    });
    const before: HttpBefore = { key: KEY, resource: null, condition: null };
    await expect(action.execute(ARGS, before, context())).rejects.toThrow(NoEffect);
    await expect(action.execute(ARGS, before, context())).rejects.toThrow('the vault is sealed');
  });

  test('for arguments that JSON would silently change', async () => {
    const before = await beforeOf(paymentAction(server.url));
    const sending = paymentAction(server.url).execute({ account: 'a1', amount: Number.NaN }, before, context());
    await expect(sending).rejects.toThrow(NoEffect);
    expect(server.writes).toHaveLength(0);
  });
});

describe('a precondition', () => {
  const enough = {
    url: () => `${server.url}${ACCOUNT}`,
    holds: ({ json }: { json: unknown }) => {
      const { balance } = json as { balance: number };
      return balance >= 1000 || `the balance is ${balance}`;
    },
  };

  test('is judged by what the target shows now', async () => {
    const action = paymentAction(server.url, { precondition: enough });
    server.set(ACCOUNT, '{"balance":1000}');
    expect(await action.precondition(ARGS, context())).toMatchObject({ holds: true });
    server.set(ACCOUNT, '{"balance":500}');
    expect(await action.precondition(ARGS, context())).toEqual({ holds: false, why: 'the balance is 500' });
  });

  test('that cannot be read does not count as one that does not hold', async () => {
    server.getStatus = 503;
    await expect(paymentAction(server.url, { precondition: enough }).precondition(ARGS, context())).rejects.toThrow(
      'HTTP 503',
    );
  });

  test('goes along as If-Match: the target refuses what has changed since', async () => {
    const action = accountAction();
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const before = await beforeOf(action);
    server.set(ACCOUNT, '{"account":"a1","amount":6}');
    await expect(action.execute(ARGS, before, context())).rejects.toThrow(NoEffect);
    expect(server.writes[0]?.headers['if-match']).toBe('"v1"');
    expect(server.json(ACCOUNT)).toEqual({ account: 'a1', amount: 6 });
  });

  test('that nothing is there yet goes along too', async () => {
    const action = accountAction();
    const before = await beforeOf(action);
    server.set(ACCOUNT, '{"account":"a1","amount":6}');
    await expect(action.execute(ARGS, before, context())).rejects.toThrow(NoEffect);
    expect(server.json(ACCOUNT)).toEqual({ account: 'a1', amount: 6 });
  });

  test('is not sent to another address than it was read from', async () => {
    server.set(ACCOUNT, '{"balance":1000}');
    await executed(paymentAction(server.url, { precondition: enough }));
    expect(server.writes[0]?.headers['if-match']).toBeUndefined();
  });

  test('broken by the action itself, in an execution that was cut off, does not make its effect disappear', async () => {
    server.honoursKeys = false;
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const before = await beforeOf(action);
    await action.execute(ARGS, before, context());
    const again = action.execute(ARGS, before, context());
    await expect(again).rejects.toThrow('HTTP 412');
    await expect(again).rejects.not.toBeInstanceOf(NoEffect);
    expect(server.effects).toBe(1);
  });
});

describe('reading back', () => {
  test('tells the effect from nothing, and from something else', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5,"changed":"monday"}');
    const action = accountAction();
    const before = await beforeOf(action);
    const verify = async () => (await action.verify(ARGS, before, undefined, context())).found;
    expect(await verify()).toBe('nothing');
    server.set(ACCOUNT, '{"changed":"tuesday","amount":5.00,"account":"a1"}');
    expect(await verify(), 'the action touches no more than it sends').toBe('nothing');
    server.set(ACCOUNT, '{"account":"a1","amount":82000,"changed":"wednesday"}');
    expect(await verify()).toBe('effect');
    server.set(ACCOUNT, '{"account":"a1","amount":"82000"}');
    expect(await verify(), 'a text is no number').toBe('something else');
    server.resources.delete(ACCOUNT);
    expect(await verify()).toBe('something else');
  });

  test('compares numbers that no double can hold', async () => {
    const args = { account: 'a1', amount: 9_007_199_254_740_993n };
    const action = accountAction();
    const { before, effect } = await executed(action, args);
    expect(server.writes[0]?.body).toBe('{"account":"a1","amount":9007199254740993}');
    expect(await action.verify(args, before, effect, context())).toMatchObject({ found: 'effect' });
    server.set(ACCOUNT, '{"account":"a1","amount":9007199254740992}');
    expect(await action.verify(args, before, effect, context())).toMatchObject({
      found: 'something else',
      evidence: { differences: [{ at: '$.amount', intended: '9007199254740993', found: '9007199254740992' }] },
    });
  });

  test('shows what is different', async () => {
    server.faults.push('wrong');
    const action = paymentAction(server.url);
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({
      found: 'something else',
      evidence: { differences: [{ at: '$.amount', intended: '82000', found: '982000' }] },
    });
  });

  test('takes the word of a function instead', async () => {
    const action = paymentAction(server.url, { matches: ({ json }, { amount }) => (json as Payment).amount > amount });
    server.faults.push('wrong');
    const { before, effect } = await executed(action);
    expect(await action.verify(ARGS, before, effect, context())).toMatchObject({ found: 'effect' });
  });

  test.each([401, 403, 500, 503])('that is answered with %i finds nothing out', async (status) => {
    const action = paymentAction(server.url);
    const { before, effect } = await executed(action);
    server.getStatus = status;
    await expect(action.verify(ARGS, before, effect, context())).rejects.toThrow(`HTTP ${status}`);
  });
});

describe('an in-band undo', () => {
  test('puts back what was there, digit by digit, under a key of its own', async () => {
    const was = '{"account":"a1","amount":9007199254740993.10,"note":"as it was"}';
    server.set(ACCOUNT, was);
    const action = accountAction();
    const done = await executed(action);
    const found = await action.verify(ARGS, done.before, done.effect, context());
    await undo(action, done, found.evidence);
    expect(server.resources.get(ACCOUNT)?.text).toBe(was);
    const [first, second] = server.writes.map(({ headers }) => headers);
    expect(second).toMatchObject({ 'if-match': '"v2"' });
    expect(second?.['idempotency-key']).toMatch(/^[0-9a-f]{64}$/);
    expect(second?.['idempotency-key']).not.toBe(first?.['idempotency-key']);
    expect(await action.verify(ARGS, done.before, done.effect, context())).toMatchObject({ found: 'nothing' });
  });

  test('deletes what was not there', async () => {
    const action = accountAction();
    const done = await executed(action);
    await undo(action, done, (await action.verify(ARGS, done.before, done.effect, context())).evidence);
    expect(server.resources.has(ACCOUNT)).toBe(false);
  });

  test('done a second time changes nothing', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const done = await executed(action);
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    await undo(action, done, evidence);
    await undo(action, done, evidence);
    expect(server.writes).toHaveLength(2);
  });

  test.each([true, false])('is refused when somebody has changed the target since (ETags: %s)', async (givesEtags) => {
    server.givesEtags = givesEtags;
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const done = await executed(action);
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    server.set(ACCOUNT, '{"account":"a1","amount":82000,"note":"by hand"}');
    await expect(undo(action, done, evidence)).rejects.toThrow(UndoRefused);
    expect(server.json(ACCOUNT)).toMatchObject({ note: 'by hand' });
  });

  test('takes back what the target made of it instead', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    server.faults.push('wrong');
    const action = accountAction();
    const done = await executed(action);
    const found = await action.verify(ARGS, done.before, done.effect, context());
    expect(found.found).toBe('something else');
    await undo(action, done, found.evidence);
    expect(server.json(ACCOUNT)).toEqual({ account: 'a1', amount: 5 });
  });

  test('is refused where something else was written by somebody else', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const done = await executed(action);
    server.set(ACCOUNT, '{"account":"a1","amount":7}');
    const found = await action.verify(ARGS, done.before, done.effect, context());
    expect(found.found).toBe('something else');
    await expect(undo(action, done, found.evidence)).rejects.toThrow('somebody else has changed it');
    await expect(undo(action, { before: done.before }, found.evidence)).rejects.toThrow(
      'not known that the action made it so',
    );
    expect(server.json(ACCOUNT)).toEqual({ account: 'a1', amount: 7 });
  });

  test('is refused by the target when it changes at the last moment', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const done = await executed(action);
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    server.faults.push(412);
    await expect(undo(action, done, evidence)).rejects.toThrow(UndoRefused);
  });

  test('that fails may be tried again', async () => {
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    const action = accountAction();
    const done = await executed(action);
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    server.faults.push(503);
    const failing = undo(action, done, evidence);
    await expect(failing).rejects.toThrow('HTTP 503');
    await expect(failing).rejects.not.toBeInstanceOf(UndoRefused);
    await undo(action, done, evidence);
    expect(server.json(ACCOUNT)).toEqual({ account: 'a1', amount: 5 });
  });

  test('cannot be declared for a look-up URL without its request', () => {
    expect(() => paymentAction(server.url, { rollback: { kind: 'in-band', plan: 'deletes it' } })).toThrow(
      'needs a request()',
    );
  });
});

describe('a compensation', () => {
  const REFUND_KEY = createHash('sha256').update(`${KEY}/undo`).digest('hex');
  const refunding = (more: Partial<HttpOptions<Payment>> = {}) =>
    httpAction(
      paymentOptions(server.url, {
        ...more,
        rollback: {
          kind: 'compensating',
          plan: 'refunds the payment',
          request: ({ args }) => ({
            method: 'POST',
            url: `${server.url}/refunds`,
            body: { refunds: args.account, amount: args.amount },
          }),
          resource: (_undo, { key }) => `${server.url}/refunds?reference=${key}`,
          pick: (json) => (json as { hits: unknown[] }).hits,
        },
      }),
    );

  async function refund(action: HttpKind, done: { before: HttpBefore; effect?: HttpEffect }) {
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    await undo(action, done, evidence, REFUND_KEY);
  }

  function readBack(action: HttpKind, { before, effect }: { before: HttpBefore; effect?: HttpEffect }) {
    if (action.rollback.kind !== 'compensating') throw new Error('it has no compensation');
    return action.rollback.readBack({ args: ARGS, before, effect, seen: undefined }, context(REFUND_KEY));
  }

  const refunds = () => [...server.resources.keys()].filter((path) => path.startsWith('/refunds/'));

  test('carries its own key and is read back', async () => {
    const action = refunding();
    const done = await executed(action);
    await refund(action, done);
    expect(server.writes[1]).toMatchObject({ path: '/refunds', headers: { 'idempotency-key': REFUND_KEY } });
    expect(await readBack(action, done)).toMatchObject({ found: 'effect', strength: 'strong' });
  });

  test('is made once, however often it is asked for, at a target that ignores keys', async () => {
    server.honoursKeys = false;
    const action = refunding();
    const done = await executed(action);
    await refund(action, done);
    await refund(action, done);
    await refund(refunding(), done); // another process
    expect(refunds()).toHaveLength(1);
  });

  test('cut off after it was made is not made again', async () => {
    server.honoursKeys = false;
    const action = refunding();
    const done = await executed(action);
    server.faults.push('cut');
    await expect(refund(action, done)).rejects.toThrow('no answer came');
    await refund(refunding(), done);
    expect(refunds()).toHaveLength(1);
    expect(await readBack(refunding(), done)).toMatchObject({ found: 'effect' });
  });

  test('of which nothing is found may still be on its way, unless the target takes each key once', async () => {
    const done = await executed(refunding());
    expect(await readBack(refunding(), done)).toMatchObject({ found: 'unknown' });
    expect(await readBack(refunding({ enforcesKey: true }), done)).toMatchObject({ found: 'nothing' });
  });

  test('that was refused may be tried again', async () => {
    const action = refunding();
    const done = await executed(action);
    server.faults.push(429);
    await expect(refund(action, done)).rejects.toThrow('the compensation was not made');
    expect(await readBack(action, done)).toMatchObject({ found: 'nothing' });
    await refund(action, done);
    expect(refunds()).toHaveLength(1);
  });

  test('whose sending is in question is not sent again to a target that ignores keys', async () => {
    server.honoursKeys = false;
    const action = refunding();
    const done = await executed(action);
    server.faults.push('cut before');
    await expect(refund(action, done)).rejects.toThrow('no answer came');
    await expect(refund(action, done)).rejects.toThrow(UndoRefused);
    expect(server.writes).toHaveLength(2);
  });

  test('is refused when what it makes good has changed', async () => {
    const action = refunding();
    const done = await executed(action);
    const { evidence } = await action.verify(ARGS, done.before, done.effect, context());
    server.set('/payments/1', `{"id":"1","reference":"${KEY}","account":"a1","amount":82000,"status":"charged back"}`);
    await expect(undo(action, done, evidence, REFUND_KEY)).rejects.toThrow(UndoRefused);
    expect(refunds()).toHaveLength(0);
  });

  test('is refused when there is nothing to make good', async () => {
    const action = refunding();
    const before = await beforeOf(action);
    await expect(undo(action, { before }, undefined, REFUND_KEY)).rejects.toThrow(UndoRefused);
    expect(refunds()).toHaveLength(0);
  });
});

describe('credentials', () => {
  const PASSWORD = 'p@ss-word-in-url';
  const TOKEN = 'tok-0123456789abcdef';

  /** Everything that such an action gives away, errors included. */
  async function everything(fault: Fault | undefined): Promise<string> {
    const base = server.url.replace('http://', `http://user:${encodeURIComponent(PASSWORD)}@`);
    const said: unknown[] = [];
    const note = async (work: Promise<unknown>) => {
      const what = await work.catch((error: Error) => ({
        ...error,
        message: error.message,
        stack: error.stack,
        cause: error.cause,
      }));
      said.push(what);
      return what;
    };
    const action = accountAction({
      url: () => `${base}${ACCOUNT}?access_token=${TOKEN}`,
      resource: () => `${base}${ACCOUNT}?access_token=${TOKEN}`,
      headers: () => ({ 'x-api-key': BEARER }),
    });
    server.set(ACCOUNT, '{"account":"a1","amount":5}');
    await note(action.present?.(ARGS) ?? Promise.resolve());
    const before = { ...(await beforeOf(action)) };
    said.push(before);
    if (fault !== undefined) server.faults.push(fault);
    const effect = (await note(action.execute(ARGS, before, context()))) as HttpEffect;
    server.set(ACCOUNT, `{"account":"${BEARER}","amount":1,"link":"${base}/x?access_token=${TOKEN}"}`);
    await note(action.verify(ARGS, before, effect, context()));
    await note(action.precondition(ARGS, context()));
    await note(undo(action, { before, effect }, undefined));
    server.getStatus = 500;
    await note(action.verify(ARGS, before, effect, context()));
    return JSON.stringify(said);
  }

  test.each<Fault | undefined>([undefined, 'cut', 'redirect', 422, '500 after'])(
    'turn up in nothing that is returned or thrown (%s)',
    async (fault) => {
      const said = await everything(fault);
      expect(server.writes[0]?.headers['x-api-key'], 'they were sent').toBe(BEARER);
      expect(server.writes[0]?.headers.authorization).toMatch(/^Basic /);
      expect(said.length, 'something was said').toBeGreaterThan(500);
      for (const secret of [BEARER, PASSWORD, encodeURIComponent(PASSWORD), TOKEN, 'user:', 'tok-in-location'])
        expect(said).not.toContain(secret);
      expect(said).not.toContain(Buffer.from(`user:${PASSWORD}`).toString('base64'));
    },
  );

  test('are masked in what an approver is shown of a request, though nothing was sent yet', async () => {
    const action = paymentAction(`${server.url}`, { body: () => ({ note: `as ${BEARER}` }) });
    expect(await action.present?.({ account: 'a1', amount: 5 })).toEqual({
      request: { method: 'POST', url: `${server.url}/payments`, body: '{"note":"as [secret]"}' },
    });
    expect(server.seen).toEqual([]);
  });

  test('are told apart from other headers, whose values are not masked', async () => {
    server.set(ACCOUNT, '{"account":"acme-bank","amount":5}');
    const action = accountAction({ plainHeaders: { 'X-Tenant': 'acme-bank' } });
    expect(await action.precondition(ARGS, context())).toMatchObject({ holds: true });
    expect(server.seen[0]?.headers).toMatchObject({ 'x-tenant': 'acme-bank', authorization: `Bearer ${BEARER}` });
  });

  test('that a refusal echoes are masked', async () => {
    server.faults.push(403);
    const { error } = await executed(paymentAction(server.url));
    expect(error?.message).toContain('[secret]');
    expect(error?.message).not.toContain(BEARER);
  });

  test('that a resource shows keep it from being recorded', async () => {
    server.set(ACCOUNT, `{"account":"a1","apiKey":"${BEARER}"}`);
    expect(await accountAction().precondition(ARGS, context())).toMatchObject({ holds: false });
  });
});
