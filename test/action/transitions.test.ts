import { describe, expect, test } from 'vitest';
import { leaseBench } from '../support/lease-bench.ts';
import { allowedPassages, enumValues } from '../support/passages.ts';

const bench = leaseBench();

/** Every way that an action's life may go; whatever else is tried is refused. */
const ALLOWED: Record<string, string[]> = {
  proposed: ['approved', 'rejected', 'expired'],
  approved: ['rejected', 'expired', 'aborted', 'in_flight'],
  rejected: [],
  expired: [],
  in_flight: ['committed', 'aborted', 'rolling_back', 'unknown', 'needs_person'],
  committed: ['rolling_back', 'needs_person'],
  aborted: [],
  rolling_back: ['rolled_back', 'needs_person', 'unknown'],
  rolled_back: [],
  unknown: ['committed', 'aborted', 'rolled_back'],
  needs_person: ['committed', 'aborted', 'rolled_back'],
};
const STATES = Object.keys(ALLOWED);

/** An action in this state, with all that any state asks for, made as the superuser. */
async function actionIn(state: string, item: string): Promise<string> {
  const { rows } = await bench.db.pool.query<{ id: string }>(
    `INSERT INTO madrugada.action (batch_id, item, name, arguments, content_sha256, generation, key, digest, batch_key, task_id, attempt, slot, agent,
       agent_sha256, lineage, proposed_by, kind, intent, permissions, blast_radius, rollback_kind, rollback_plan, approval, expires_at, on_expiry,
       state, worker_id, lease_token, executed_for, deadline_at, evidence, committed_no)
     VALUES ('passages', $2, 'move', '{}', '', 1, '', '', 'passages:v1', 0, 1, 's', 'agent', 'sha', '{}', 'agent', 'postgres', 'a test', '{nothing}',
       'nothing', 'in-band', 'put it back', 'none', madrugada.now() + interval '1 day', 'reject',
       $1, $3, 1, 0, madrugada.now() + interval '1 minute', '{}', 1)
     RETURNING id`,
    [state, item, bench.worker.id],
  );
  return rows[0]?.id ?? '';
}

/** Its state, and the events of its audit rows after the first. */
async function trailOf(id: string): Promise<{ state: string; events: string[] }> {
  const { rows } = await bench.db.pool.query(
    `SELECT a.state, ARRAY(SELECT e.event FROM madrugada.audit_event e WHERE e.action_id = a.id ORDER BY e.id OFFSET 1) AS events
       FROM madrugada.action a WHERE a.id = $1`,
    [id],
  );
  return rows[0];
}

function change(id: string, state: string): Promise<unknown> {
  return bench.db.pool.query('UPDATE madrugada.action SET state = $2 WHERE id = $1', [id, state]);
}

test('the states here are those of the database, and its guard lists the passages here', async () => {
  expect(STATES).toEqual(await enumValues(bench.db.pool, 'action_state'));
  const listed = Object.entries(ALLOWED).flatMap(([from, tos]) => tos.map((to) => [from, to]));
  expect((await allowedPassages(bench.db.pool, 'action')).sort()).toEqual(listed.sort());
});

describe.each(STATES)('from %s', (from) => {
  for (const to of STATES)
    if (from === to)
      test(`to ${to} is no passage: it leaves no audit row`, async () => {
        const id = await actionIn(from, `${from} ${to}`);
        await change(id, to);
        expect(await trailOf(id)).toEqual({ state: from, events: [] });
      });
    else if (ALLOWED[from]?.includes(to))
      test(`the passage to ${to} leaves exactly one audit row`, async () => {
        const id = await actionIn(from, `${from} ${to}`);
        await change(id, to);
        expect(await trailOf(id)).toEqual({ state: to, events: [to.replaceAll('_', ' ')] });
      });
    else
      test(`the passage to ${to} is refused, whoever tries, and leaves no trace`, async () => {
        const id = await actionIn(from, `${from} ${to}`);
        await expect(change(id, to)).rejects.toMatchObject({
          code: '23514',
          message: `action ${id}: no passage from ${from} to ${to}`,
        });
        expect(await trailOf(id)).toEqual({ state: from, events: [] });
      });
});

test('an action is history: nobody deletes it', async () => {
  const id = await actionIn('rejected', 'deleted');
  await expect(bench.db.pool.query('DELETE FROM madrugada.action WHERE id = $1', [id])).rejects.toMatchObject({
    code: '42501',
  });
});
