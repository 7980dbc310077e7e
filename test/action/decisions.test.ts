import { expect, test } from 'vitest';
import { openClient } from '../../src/postgres/connect.ts';
import { actionBench } from '../support/action-bench.ts';
import { sayAndRun } from '../support/as-person.ts';
import { moveClock } from '../support/move-clock.ts';
import { openAlertsOf, passagesOf, propose } from '../support/proposals.ts';
import { until } from '../support/until.ts';

const bench = actionBench();
const MOVED = ['700.00', '350.00', '0.00'];
const AS_BEFORE = ['1000.00', '50.00', '0.00'];
const IRREVERSIBLE = { rollback: { kind: 'none', cannot: 'the  transfer' }, approval: 'challenge' } as const;

const stateOf = async (id: number) => (await bench.action(id)).state;

const decisionsOn = async (id: number) =>
  (await bench.db.pool.query('SELECT person FROM madrugada.action_decision WHERE action_id = $1 ORDER BY person', [id]))
    .rows;

/** Decides for each of `names` at the same moment: all wait for the row when it is let go. */
async function decideTogether(id: number, names: string[]): Promise<string[]> {
  const holder = await bench.db.pool.connect();
  try {
    await holder.query('BEGIN');
    await holder.query('SELECT FROM madrugada.action WHERE id = $1 FOR UPDATE', [id]);
    const decisions = names.map((by) => bench.decide(id, { by }));
    await until('all of them wait', async () => {
      const { rows } = await bench.db.pool.query<{ waiting: number }>(
        `SELECT count(*)::int AS waiting FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%decide_action%'`,
      );
      return rows[0]?.waiting === names.length;
    });
    await holder.query('COMMIT');
    return (await Promise.all(decisions)).map(({ outcome }) => outcome).sort();
  } finally {
    holder.release(true); // a transaction that is still open ends with it
  }
}

test('twenty approvals at the same moment are one decision, one audit row and one effect', async () => {
  const proposal = await propose(bench);
  const outcomes = await decideTogether(
    proposal.id,
    Array.from({ length: 20 }, (_, index) => `person ${index}`),
  );
  expect(outcomes).toEqual([...Array(19).fill('already'), 'approved']);
  expect(await decisionsOn(proposal.id)).toHaveLength(1);
  expect((await passagesOf(bench, proposal.id)).filter((passage) => passage.startsWith('approved'))).toHaveLength(1);

  expect((await proposal.goOn()).ending).toBe('completed');
  expect(await bench.balances()).toEqual(MOVED);
  expect(await bench.movements(1)).toBe(1);
});

test('twenty approvals by two people, ten each at the same moment, are two decisions', async () => {
  const { id } = await propose(bench, { approval: 'two-people' });
  const outcomes = await decideTogether(
    id,
    Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 'ana' : 'ben')),
  );
  expect(outcomes).toEqual([...Array(18).fill('already'), 'approved', 'waiting']);
  expect(await decisionsOn(id)).toEqual([{ person: 'ana' }, { person: 'ben' }]);
});

test('where two people are asked, one person is one, however the name is written', async () => {
  const proposal = await propose(bench, { approval: 'two-people' });
  const { id } = proposal;
  expect(await bench.decide(id, { by: 'Ana' })).toMatchObject({ outcome: 'waiting' });
  expect(await bench.decide(id, { by: ' ana ' })).toMatchObject({ outcome: 'already' });
  expect(await stateOf(id)).toBe('proposed');
  await expect(proposal.goOn()).rejects.toThrow('no task to claim');

  expect(await bench.decide(id, { by: 'ben' })).toMatchObject({ outcome: 'approved' });
  expect(await passagesOf(bench, id)).toEqual(['proposed', 'approved by one by Ana', 'approved by ben']);
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(await bench.balances()).toEqual(MOVED);
});

test('what cannot be undone is approved with the right challenge only, and every point checked', async () => {
  const proposal = await propose(bench, IRREVERSIBLE);
  const { id } = proposal;
  const { digest = '' } = await bench.action(id);
  const challenge = `${digest.slice(0, 8)} the transfer`;
  const checklist = ['resource', 'blast-radius', 'rollback'] as const;
  for (const wrong of [undefined, '', 'yes', digest, `${digest.slice(0, 8)} another`, '00000000 the transfer'])
    await expect(
      bench.decide(id, { ...(wrong !== undefined && { challenge: wrong }), checklist: [...checklist] }),
    ).rejects.toThrow(`type exactly: ${challenge}`);
  await expect(bench.decide(id, { challenge })).rejects.toThrow('missing: resource, blast-radius, rollback');
  await expect(bench.decide(id, { challenge, checklist: ['resource'] })).rejects.toThrow(
    /missing: blast-radius, rollback$/,
  );
  expect(await stateOf(id)).toBe('proposed');
  expect(await passagesOf(bench, id)).toEqual(['proposed', ...Array(8).fill('approve refused by ana')]);

  await bench.decide(id, { challenge: ` ${challenge.replace(' ', '  ')} `, checklist: [...checklist] });
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(await bench.balances()).toEqual(MOVED);
});

test('nobody decides on what they have proposed', async () => {
  const { id } = await propose(bench);
  const { slot = '', agent = '', proposed_by: proposer = '' } = await bench.action(id);
  for (const by of [proposer, ` ${slot.toUpperCase()}`, agent])
    for (const verdict of ['approve', 'reject'] as const)
      await expect(bench.decide(id, { by, verdict, reason: 'mine' })).rejects.toThrow('has proposed it');
  expect(await stateOf(id)).toBe('proposed');
});

test('a digest of anything else than what is proposed decides nothing, and is on record', async () => {
  const { id } = await propose(bench);
  const other = await bench.action((await propose(bench)).id);
  await expect(bench.decide(id, { digest: other.digest ?? '' })).rejects.toThrow('look at it again');
  await expect(bench.decide(id, { digest: '' })).rejects.toThrow('look at it again');
  expect(await stateOf(id)).toBe('proposed');
  expect(await passagesOf(bench, id)).toEqual(['proposed', ...Array(2).fill('approve refused by ana')]);
});

test('a decision without a name, and a rejection without a reason, are none', async () => {
  const { id } = await propose(bench);
  await expect(bench.decide(id, { by: '' })).rejects.toThrow('with a name');
  await expect(bench.decide(id, { verdict: 'reject' })).rejects.toThrow('also gives a reason');
  expect(await stateOf(id)).toBe('proposed');
});

test.each(['worker', 'operator'] as const)('the role %s decides nothing, and its try is on record', async (as) => {
  const { id } = await propose(bench);
  await expect(bench.decide(id, { as })).rejects.toThrow(
    `action ${id}: not approved: role madrugada_${as} may not decide on actions: that takes madrugada_approver`,
  );
  const { rows } = await bench.db.pool.query(
    `SELECT reason FROM madrugada.audit_event WHERE action_id = $1 AND event = 'approve refused'`,
    [id],
  );
  expect(rows).toEqual([{ reason: expect.stringContaining(`(by role madrugada_${as})`) }]);
  const client = await openClient({ url: bench.db.url, as, applicationName: 'madrugada test' });
  try {
    for (const statement of [
      `UPDATE madrugada.action SET state = 'approved' WHERE id = ${id}`,
      `INSERT INTO madrugada.action_decision (action_id, by_name, verdict, digest, checklist) VALUES (${id}, 'ana', 'approve', '', '{}')`,
      `SELECT madrugada.note_action(a, 'approved', 'proposed', 'by ana') FROM madrugada.action a WHERE id = ${id}`,
    ])
      await expect(client.query(statement)).rejects.toMatchObject({ code: '42501' });
  } finally {
    await client.end();
  }
  expect(await stateOf(id)).toBe('proposed');
});

/** What somebody does who may switch triggers off. */
async function changePastTheGuard(id: number, set: string): Promise<void> {
  await bench.db.pool.query('ALTER TABLE madrugada.action DISABLE TRIGGER action_guard');
  await bench.db.pool.query(`UPDATE madrugada.action a SET ${set} WHERE a.id = $1`, [id]);
  await bench.db.pool.query('ALTER TABLE madrugada.action ENABLE TRIGGER action_guard');
}
const MORE = `arguments = a.arguments || '{"amount": "900.00"}'`;

test('arguments do not change: the guard refuses it even to the owner', async () => {
  const { id } = await propose(bench);
  await expect(bench.db.pool.query(`UPDATE madrugada.action a SET ${MORE} WHERE a.id = $1`, [id])).rejects.toThrow(
    'what was proposed does not change; propose another',
  );
});

test('arguments changed past the guard after the approval are not executed, and a person is told', async () => {
  const proposal = await propose(bench);
  await bench.decide(proposal.id);
  await changePastTheGuard(proposal.id, MORE);
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(proposal.outcomes).toEqual([
    { id: proposal.id, state: 'aborted', why: 'what is to be executed is not what was approved' },
  ]);
  expect(await openAlertsOf(bench, proposal.batch)).toEqual(['action aborted']);
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('nor are they when the digest was changed along with them: the approval is of another', async () => {
  const proposal = await propose(bench);
  await bench.decide(proposal.id);
  await changePastTheGuard(proposal.id, MORE);
  await changePastTheGuard(proposal.id, 'digest = madrugada.action_digest(a)');
  await proposal.goOn();
  expect(proposal.outcomes).toMatchObject([{ state: 'aborted' }]);
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('what was changed past the guard before the approval is not approved, and can be rejected', async () => {
  const proposal = await propose(bench);
  await changePastTheGuard(proposal.id, MORE);
  await expect(bench.decide(proposal.id)).rejects.toThrow('what is stored is not what was proposed');
  expect(await bench.decide(proposal.id, { verdict: 'reject', reason: 'tampered with' })).toMatchObject({
    outcome: 'rejected',
  });
});

test('what was changed past the guard can still expire, and keeps nothing else from being tended', async () => {
  const proposal = await propose(bench);
  const other = await propose(bench);
  await changePastTheGuard(proposal.id, MORE);
  await moveClock(bench.db, '25 hours');
  await bench.db.pool.query('SELECT madrugada.tend_actions()');
  expect([await stateOf(proposal.id), await stateOf(other.id)]).toEqual(['expired', 'expired']);
});

test('a rejection ends it, and its task is told why; there is nothing to approve any more', async () => {
  const proposal = await propose(bench);
  const { id } = proposal;
  expect(await bench.decide(id, { verdict: 'reject', reason: 'paid' })).toMatchObject({ outcome: 'rejected' });
  expect(await bench.decide(id, { verdict: 'reject', reason: 'paid', by: 'ben' })).toMatchObject({
    outcome: 'already',
  });
  await expect(bench.decide(id, { by: 'ben' })).rejects.toThrow('it is rejected: rejected by ana: paid');
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(proposal.outcomes).toEqual([{ id, state: 'rejected', why: 'rejected by ana: paid' }]);
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('what is approved can be rejected as long as it is not in flight', async () => {
  const proposal = await propose(bench);
  await bench.decide(proposal.id);
  expect(await bench.decide(proposal.id, { by: 'ben', verdict: 'reject', reason: 'stop' })).toMatchObject({
    outcome: 'rejected',
  });
  await proposal.goOn();
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('a late approval counts until the very expiry', async () => {
  const proposal = await propose(bench);
  await moveClock(bench.db, '23 hours 50 minutes');
  expect(await bench.decide(proposal.id)).toMatchObject({ outcome: 'approved' });
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(await bench.balances()).toEqual(MOVED);
});

test('what nobody decided in time has expired: it is not approved any more, and the task does not go on as if it were', async () => {
  const proposal = await propose(bench);
  await moveClock(bench.db, '25 hours');
  await expect(bench.decide(proposal.id)).rejects.toThrow('it is expired: nobody decided until');
  expect(await openAlertsOf(bench, proposal.batch)).toEqual(['action expired']);
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(proposal.outcomes).toMatchObject([{ state: 'expired' }]);
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('an approval that was not used in time is used up', async () => {
  const proposal = await propose(bench);
  await bench.decide(proposal.id);
  await moveClock(bench.db, '25 hours');
  expect((await proposal.goOn()).ending).toBe('completed');
  expect(proposal.outcomes).toMatchObject([{ state: 'expired', why: expect.stringContaining('not executed until') }]);
  expect(await bench.balances()).toEqual(AS_BEFORE);
});

test('an expiry fails the task where its action says so', async () => {
  const proposal = await propose(bench, { onExpiry: 'fail' });
  await moveClock(bench.db, '25 hours');
  await bench.db.pool.query('SELECT madrugada.tend_actions()');
  expect(await proposal.goOn()).toMatchObject({ ending: 'failed', message: expect.stringContaining('has expired') });
  expect(proposal.outcomes).toEqual([]);
});

test('a person is reminded at half of the time and again at four fifths, each once; a decision answers all of it', async () => {
  const { id, batch } = await propose(bench);
  const tend = () => bench.db.pool.query('SELECT madrugada.tend_actions()');
  await moveClock(bench.db, '11 hours');
  await tend();
  expect(await openAlertsOf(bench, batch)).toEqual(['approval']);
  await moveClock(bench.db, '2 hours');
  await tend();
  await tend();
  expect(await openAlertsOf(bench, batch)).toEqual(['approval', 'approval reminder']);
  await moveClock(bench.db, '7 hours');
  await tend();
  await tend();
  expect(await openAlertsOf(bench, batch)).toEqual(['approval', 'approval reminder', 'approval escalation']);
  await bench.decide(id);
  expect(await openAlertsOf(bench, batch)).toEqual([]);
});

test('who resumes a batch has not thereby decided on its actions: their alerts stay', async () => {
  const { batch } = await propose(bench);
  await sayAndRun(bench.db, 'SELECT madrugada.stop_batch($1, $2)', [batch, 'a look']);
  await sayAndRun(bench.db, 'SELECT madrugada.resume_batch($1)', [batch]);
  expect(await openAlertsOf(bench, batch)).toEqual(['approval']);
});

test('an execution that says it had no effect is believed, whichever copy of the package it was built with', async () => {
  class NoEffect extends Error {
    override name = 'NoEffect';
  }
  const proposal = await propose(bench, { execute: () => Promise.reject(new NoEffect('the bank is closed')) });
  await bench.decide(proposal.id);
  await proposal.goOn();
  expect(proposal.outcomes).toMatchObject([{ state: 'aborted', why: 'nothing was done: the bank is closed' }]);
});

/** A bank that cannot be asked what became of a transfer. */
const SILENT = { verify: async () => ({ found: 'unknown' as const, evidence: { why: 'the bank is silent' } }) };

test.each(['committed', 'aborted', 'rolled_back'] as const)(
  'an unknown action waits for a person, who settles it as %s',
  async (as) => {
    const proposal = await propose(bench, SILENT);
    await bench.decide(proposal.id);
    expect((await proposal.goOn()).ending).toBe('parked');
    expect(await openAlertsOf(bench, proposal.batch)).toEqual(['action unknown']);
    await expect(proposal.goOn()).rejects.toThrow('no task to claim');
    const settle = (role: 'approver' | 'worker') => bench.settle(proposal.id, as, role);
    await expect(settle('worker')).rejects.toThrow('role madrugada_worker may not settle actions');
    await settle('approver');
    expect(await openAlertsOf(bench, proposal.batch)).toEqual([]);
    expect((await passagesOf(bench, proposal.id)).at(-1)).toBe(`${as.replace('_', ' ')} by ana`);
    await expect(settle('approver')).rejects.toThrow('only what is unknown or needs a person');
    expect((await proposal.goOn()).ending).toBe('completed');
    expect(proposal.outcomes).toMatchObject([{ state: as }]);
    expect(await bench.movements(1)).toBe(1); // settling is a word, not an execution
  },
);
