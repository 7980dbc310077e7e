import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPool } from '../../src/postgres/connect.ts';
import { NO_TOKENS, Pace, type Tokens, type Turn } from '../../src/provider/pace.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { moveClock } from '../support/move-clock.ts';

const nothing = () => NO_TOKENS;
const AT_ONCE = { kind: 'turn', waitMs: 0, taken: NO_TOKENS, isCounted: false };
const CAP_MS = 3_600_000;
const MINUTE_MS = 60_000;
const WEEK_MS = 7 * 24 * 60 * MINUTE_MS;
let db: TestDatabase;
let pool: Pool;
let addresses = 0;

beforeAll(async () => {
  db = await createTestDatabase();
  pool = openPool({ url: db.url, as: 'worker', applicationName: 'madrugada test pace', max: 5 });
});
afterAll(async () => {
  await pool?.end();
  await db?.drop();
});

/** An address that no other test asks. */
function newAddress() {
  addresses += 1;
  return { origin: `https://provider-${addresses}.example`, model: 'claude-haiku-4-5' };
}

type Address = ReturnType<typeof newAddress>;

/** Workers of a fleet, all of which have heard of what is paced. */
async function fleet(count: number): Promise<[Pace, ...Pace[]]> {
  const paces = Array.from({ length: count }, () => new Pace(pool));
  await Promise.all(paces.map((pace) => pace.refresh()));
  return paces as [Pace, ...Pace[]];
}

async function refuse(address: Address, headers: Record<string, string> = {}, isCounted = true): Promise<void> {
  await new Pace(pool).noteRefusal(address, headers, CAP_MS, isCounted);
}

/** The moments of `count` turns in milliseconds from when the first was asked for, asked for by all workers at once. */
async function momentsOf(paces: Pace[], address: Address, count: number): Promise<number[]> {
  const start = performance.now();
  const moments = Array.from({ length: count }, async (_, index) => {
    const turn = await (paces[index % paces.length] as Pace).takeTurn(address, nothing, WEEK_MS);
    return performance.now() - start + waitOf(turn);
  });
  return (await Promise.all(moments)).sort((a, b) => a - b);
}

function waitOf(turn: Turn): number {
  if (turn.kind === 'parked') throw new Error(`parked until ${turn.until.toISOString()}`);
  return turn.waitMs;
}

async function nextAt({ origin }: Address): Promise<Date> {
  const { rows } = await db.pool.query('SELECT next_at FROM madrugada.provider_pace WHERE origin = $1', [origin]);
  return rows[0].next_at;
}

/** What the database granted says more than what the workers made of it: nothing there depends on how fast this machine is. */
async function grantsOf(paces: Pace[], address: Address, count: number): Promise<number[]> {
  await db.pool.query('CREATE TABLE IF NOT EXISTS public.turn (origin text, next_at timestamptz)');
  await db.pool.query(`
    CREATE OR REPLACE FUNCTION public.keep_turn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
      AS $$ BEGIN INSERT INTO public.turn VALUES (NEW.origin, NEW.next_at); RETURN NEW; END $$;
    CREATE OR REPLACE TRIGGER keep_turn AFTER UPDATE ON madrugada.provider_pace FOR EACH ROW
      WHEN (NEW.next_at IS DISTINCT FROM OLD.next_at) EXECUTE FUNCTION public.keep_turn()`);
  await momentsOf(paces, address, count);
  const { rows } = await db.pool.query<{ at: string }>(
    'SELECT extract(epoch FROM next_at) * 1000 AS at FROM public.turn WHERE origin = $1 ORDER BY next_at',
    [address.origin],
  );
  return rows.map(({ at }) => Number(at));
}

for (const rate of [30, 1000])
  test(`workers together are never granted more turns in any minute than ${rate} announced and 5 %`, async () => {
    const address = newAddress();
    await refuse(address, { 'anthropic-ratelimit-requests-limit': String(rate), 'retry-after': '2' });
    const grants = await grantsOf(await fleet(5), address, Math.ceil(rate * 1.5));

    expect(grants).toHaveLength(Math.ceil(rate * 1.5));
    const mostInAMinute = Math.max(
      ...grants.map((from) => grants.filter((at) => at >= from && at < from + MINUTE_MS).length),
    );
    expect(mostInAMinute).toBeLessThanOrEqual(rate * 1.05);
    expect(mostInAMinute).toBeGreaterThanOrEqual(rate * 0.95);
  });

test('nobody is granted a turn before the pause that the provider asked for is over', async () => {
  const address = newAddress();
  await refuse(address, { 'retry-after': '600' });
  const moments = await momentsOf(await fleet(3), address, 30);
  expect(moments[0]).toBeGreaterThan(590_000);
});

test('a burst of refusals without a rate does not bring everybody back at one instant', async () => {
  const address = newAddress();
  await Promise.all(Array.from({ length: 20 }, () => refuse(address, { 'retry-after': '600' })));
  const moments = await momentsOf(await fleet(5), address, 100);

  const mostInASecond = Math.max(
    ...moments.map((from) => moments.filter((at) => at - from < 1_000 && at >= from).length),
  );
  expect(mostInASecond).toBeLessThan(25); // of 100 in half a minute; all 100 at one instant without the spreading
});

test('a shorter pause does not cut a longer one short', async () => {
  const address = newAddress();
  await refuse(address, { 'retry-after': '600' });
  await refuse(address, { 'retry-after': '1' });
  const [pace] = await fleet(1);
  expect(waitOf(await pace.takeTurn(address, nothing, WEEK_MS))).toBeGreaterThan(590_000);
});

test('a turn too far off to wait for says until when, and takes nobody’s place', async () => {
  const address = newAddress();
  await refuse(address, { 'retry-after': '600', 'x-ratelimit-limit-requests': '60' });
  const [pace] = await fleet(1);
  const before = await nextAt(address);
  const turn = await pace.takeTurn(address, nothing, MINUTE_MS);

  expect(turn.kind === 'parked' && turn.until.getTime() - Date.now()).toBeGreaterThan(590_000);
  expect(await nextAt(address)).toEqual(before);
});

test('another model of the same provider is not slowed down', async () => {
  const address = newAddress();
  await refuse(address, { 'retry-after': '600' });
  const [pace] = await fleet(1);
  expect(await pace.takeTurn({ ...address, model: 'claude-opus-4-1' }, nothing, 0)).toEqual(AT_ONCE);
});

/** A worker whose round trips to the database are counted. */
function countedPace() {
  const counted = { queries: 0 };
  const query = (...args: unknown[]) => {
    counted.queries += 1;
    return Reflect.apply(pool.query, pool, args);
  };
  return { counted, pace: new Pace({ query } as unknown as Pool) };
}

test('before the first refusal a turn costs no round trip to the database', async () => {
  const { counted, pace } = countedPace();
  const address = newAddress();
  await pace.takeTurn(address, nothing, 0);
  expect(counted.queries).toBe(0);

  await pace.noteRefusal(address, {}, CAP_MS, false);
  await pace.takeTurn(address, nothing, MINUTE_MS);
  expect(counted.queries).toBe(2);
});

test('a model whose name is too long or has a NUL is paced like any other', async () => {
  const address = { ...newAddress(), model: `\0${'m'.repeat(10_000)}` };
  await refuse(address, { 'retry-after': '600' });
  const [pace] = await fleet(1);
  expect((await pace.takeTurn(address, nothing, 0)).kind).toBe('parked');
});

/** Anthropic's headers for a limit of output tokens a minute. */
function outputLimit(limit: number, remaining?: number): Record<string, string> {
  return {
    'anthropic-ratelimit-output-tokens-limit': String(limit),
    ...(remaining !== undefined && { 'anthropic-ratelimit-output-tokens-remaining': String(remaining) }),
    'anthropic-ratelimit-requests-limit': '6000000', // not what is short
    'retry-after': '0.001',
  };
}

const writing = (output: number) => () => ({ input: 0, output });
const reading = (input: number) => () => ({ input, output: 0 });

/** The waits, in milliseconds, of turns for these tokens each, taken by all workers at once. */
async function waitsOf(paces: Pace[], address: Address, most: () => Tokens, count: number): Promise<number[]> {
  const turns = Array.from({ length: count }, (_, index) =>
    (paces[index % paces.length] as Pace).takeTurn(address, most, WEEK_MS),
  );
  return (await Promise.all(turns)).map(waitOf).sort((a, b) => a - b);
}

const SECOND_MS = 1_000;

test('workers together are never granted more output tokens in any minute than announced, and no fewer over a night', async () => {
  const address = newAddress();
  const start = performance.now();
  await refuse(address, outputLimit(6_000));
  const waits = await waitsOf(await fleet(5), address, writing(500), 60);
  const slack = performance.now() - start;

  // the bucket was empty when the provider refused: 100 tokens a second come back, so each turn is 5 s after the one before
  expect(waits[0]).toBeGreaterThan(5 * SECOND_MS - slack - 100);
  for (const [index, wait] of waits.entries()) {
    expect(wait).toBeGreaterThan((index + 1) * 5 * SECOND_MS - slack - 100);
    expect(wait).toBeLessThanOrEqual((index + 1) * 5 * SECOND_MS + 100);
  }
});

test('input tokens have a bucket of their own, and so have both together', async () => {
  const [ofInput, ofBoth] = [newAddress(), newAddress()];
  await refuse(ofInput, {
    'anthropic-ratelimit-input-tokens-limit': '6000',
    'anthropic-ratelimit-requests-limit': '600000',
  });
  await refuse(ofBoth, { 'x-ratelimit-limit-tokens': '6000', 'x-ratelimit-limit-requests': '600000' });
  const [pace] = await fleet(1);

  expect(waitOf(await pace.takeTurn(ofInput, writing(6_000), WEEK_MS))).toBeLessThan(2 * SECOND_MS);
  expect(waitOf(await pace.takeTurn(ofInput, reading(3_000), WEEK_MS))).toBeGreaterThan(25 * SECOND_MS);
  expect(waitOf(await pace.takeTurn(ofBoth, () => ({ input: 2_000, output: 1_000 }), WEEK_MS))).toBeGreaterThan(
    25 * SECOND_MS,
  );
});

test('what the provider says is left may be used at once', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000, 4_000));
  const waits = await waitsOf(await fleet(4), address, writing(1_000), 6);

  expect(waits.slice(0, 4).every((wait) => wait < 2 * SECOND_MS)).toBe(true);
  expect(waits[4]).toBeGreaterThan(2 * SECOND_MS);
  expect(waits[5]).toBeGreaterThan(12 * SECOND_MS);
});

test('what a dispatch has not used of what its turn took is put back for the next', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000, 6_000));
  const [one, other] = (await fleet(2)) as [Pace, Pace];
  const turn = await one.takeTurn(address, writing(6_000), WEEK_MS);
  const before = await other.takeTurn(address, writing(3_000), 0);
  if (turn.kind === 'parked') throw new Error('parked');
  await one.noteUse(address, turn.taken, { inputTokens: 9, outputTokens: 60 }, outputLimit(6_000));

  expect(before.kind).toBe('parked');
  expect(waitOf(await other.takeTurn(address, writing(5_940), WEEK_MS))).toBe(0);
});

test('a dispatch that was refused puts back all it took', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000, 6_000));
  const [pace] = await fleet(1);
  const turn = await pace.takeTurn(address, writing(6_000), WEEK_MS);
  if (turn.kind === 'parked') throw new Error('parked');
  await pace.noteUse(address, turn.taken, undefined, {});
  expect(waitOf(await pace.takeTurn(address, writing(5_900), WEEK_MS))).toBe(0);
});

test('a bucket is never taken to be fuller than the provider says, whoever else has used it', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000, 6_000));
  const [pace] = await fleet(1);
  await pace.noteUse(address, NO_TOKENS, { inputTokens: 1, outputTokens: 1 }, outputLimit(6_000, 1_000));
  expect(waitOf(await pace.takeTurn(address, writing(3_000), WEEK_MS))).toBeGreaterThan(15 * SECOND_MS);
});

test('prompts that were read from the cache are not counted against Anthropic’s limit', async () => {
  const address = newAddress();
  const headers = {
    ...outputLimit(6_000, 6_000),
    'anthropic-ratelimit-tokens-limit': '6000',
    'anthropic-ratelimit-tokens-remaining': '6000',
  };
  await refuse(address, headers);
  const [pace] = await fleet(1);
  const turn = await pace.takeTurn(address, reading(6_000), WEEK_MS);
  if (turn.kind === 'parked') throw new Error('parked');
  await pace.noteUse(address, turn.taken, { inputTokens: 10, outputTokens: 0, cacheReadTokens: 5_990 }, headers);
  expect(waitOf(await pace.takeTurn(address, reading(5_900), WEEK_MS))).toBe(0);
});

test('a dispatch that may use more than a minute’s worth goes out with a full bucket, and keeps the next for a minute at most', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000));
  const waits = await waitsOf(await fleet(1), address, writing(128_000), 2);
  expect(waits[0]).toBeGreaterThan(55 * SECOND_MS);
  expect(waits[0]).toBeLessThanOrEqual(MINUTE_MS);
  expect(waits[1]).toBeGreaterThan(115 * SECOND_MS);
  expect(waits[1]).toBeLessThanOrEqual(2 * MINUTE_MS);
});

test('a turn too far off for its tokens takes nobody’s', async () => {
  const address = newAddress();
  await refuse(address, outputLimit(6_000, 1_000));
  const [pace] = await fleet(1);
  expect((await pace.takeTurn(address, writing(6_000), 0)).kind).toBe('parked');
  expect(waitOf(await pace.takeTurn(address, writing(1_000), WEEK_MS))).toBeLessThan(2 * SECOND_MS);
});

test('a day’s limit with something left does not slow the fleet down to its average; used up, it does', async () => {
  const address = newAddress();
  const daily = { 'x-ratelimit-limit-requests': '1440', 'x-ratelimit-reset-requests': '20h', 'retry-after': '0.001' };
  const [pace] = await fleet(1);
  await refuse(address, { ...daily, 'x-ratelimit-remaining-requests': '0' });
  await pace.refresh();
  const used = await momentsOf([pace], address, 3);
  await refuse(address, { ...daily, 'x-ratelimit-remaining-requests': '700' });
  const left = await momentsOf([pace], address, 3);

  expect(used[2]).toBeGreaterThan(115 * SECOND_MS);
  expect(left[2]).toBeLessThan(30 * SECOND_MS);
});

test('how a dispatch ended costs no round trip where the pace does not hold', async () => {
  const { counted, pace } = countedPace();
  await pace.noteUse(newAddress(), NO_TOKENS, { inputTokens: 1, outputTokens: 1 }, {});
  expect(counted.queries).toBe(0);
});

test('dispatches that nobody had counted are, once they are refused, up to a minute’s', async () => {
  const headers = { 'retry-after': '1', 'x-ratelimit-limit-requests': '60' };
  const [few, many] = [newAddress(), newAddress()];
  await Promise.all(Array.from({ length: 30 }, () => refuse(few, headers, false)));
  await Promise.all(Array.from({ length: 200 }, () => refuse(many, headers, false)));
  await Promise.all(Array.from({ length: 30 }, () => refuse(many, headers, true)));
  const [pace] = await fleet(1);
  const afterFew = waitOf(await pace.takeTurn(few, nothing, WEEK_MS));
  const afterMany = waitOf(await pace.takeTurn(many, nothing, WEEK_MS));
  expect(afterFew).toBeGreaterThan(15_000);
  expect(afterFew).toBeLessThanOrEqual(30_000);
  expect(afterMany).toBeGreaterThan(30_000);
  expect(afterMany).toBeLessThanOrEqual(60_000);
});

// the last one: the clock is the whole database's
test('an hour after the last refusal and its pause everybody is free again, without a round trip', async () => {
  const address = newAddress();
  const { counted, pace } = countedPace();
  await pace.noteRefusal(address, { 'retry-after': '600', 'x-ratelimit-limit-requests': '1' }, CAP_MS, true);
  await moveClock(db, '69 minutes');
  waitOf(await pace.takeTurn(address, nothing, 0));
  expect((await pace.takeTurn(address, nothing, 0)).kind).toBe('parked');

  await moveClock(db, '2 minutes');
  expect(await pace.takeTurn(address, nothing, 0)).toEqual(AT_ONCE);
  const before = counted.queries;
  expect(await pace.takeTurn(address, nothing, 0)).toEqual(AT_ONCE);
  expect(counted.queries).toBe(before);
});
