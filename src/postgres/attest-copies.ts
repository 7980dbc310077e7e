import type { ClientBase } from 'pg';
import { type Finding, ok, warn } from './finding.ts';

interface Copies {
  archiving: boolean;
  archiveFails: boolean;
  lastArchived: Date | null;
  standbys: number;
  synchronous: number;
  wanted: string;
}

/** Does the journal exist a second time? Nothing here fails: one good disk keeps every promise for as long as it lasts. */
export async function attestCopies(client: ClientBase): Promise<Finding[]> {
  const { rows } = await client.query<Copies>(
    `SELECT current_setting('archive_mode') <> 'off'
              AND (current_setting('archive_command') NOT IN ('', '(disabled)') OR current_setting('archive_library') <> '') AS archiving,
            coalesce(a.last_failed_time > coalesce(a.last_archived_time, '-infinity'), false) AS "archiveFails", a.last_archived_time AS "lastArchived",
            (SELECT count(*) FROM pg_stat_replication)::integer AS standbys,
            (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))::integer AS synchronous,
            current_setting('synchronous_standby_names') AS wanted
       FROM pg_stat_archiver a`,
  );
  const [copies] = rows;
  if (copies === undefined) throw new Error('no archiver');
  return [backup(copies), standby(copies)];
}

function backup({ archiving, archiveFails, lastArchived, standbys }: Copies): Finding {
  const check = 'backup';
  if (archiving && archiveFails)
    return warn(check, 'archiving is on, and the last try failed', 'see the server’s log, and mend archive_command');
  if (archiving) return ok(check, `WAL is archived, last ${lastArchived?.toISOString() ?? 'not yet'}`);
  if (standbys > 0)
    return warn(
      check,
      `no archiving; ${standbys} standby(s), which repeat a mistake at once`,
      'archive WAL, or back up every night after the last batch: pg_dump "$(madrugada db url)" > FILE',
    );
  return warn(
    check,
    'no archiving and no standby: with this disk the journal is lost, and what was paid cannot be proven',
    'archive WAL, or back up every night after the last batch: pg_dump "$(madrugada db url)" > FILE',
  );
}

function standby({ standbys, synchronous, wanted }: Copies): Finding {
  const check = 'synchronous standby';
  if (synchronous > 0) return ok(check, `${synchronous} of ${standbys} standby(s) have what is committed`);
  if (wanted !== '')
    return warn(
      check,
      `none of "${wanted}" is connected: commits wait for it`,
      'start the standby, or take it out of synchronous_standby_names',
    );
  return warn(
    check,
    `none: a failover to ${standbys > 0 ? 'a standby' : 'a restored backup'} may lose the last records, and calls be paid again without being named`,
    'set synchronous_standby_names; without it, compare the bill first after a failover (runbook, "restored database")',
  );
}
