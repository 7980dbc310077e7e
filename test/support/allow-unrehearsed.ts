import { asPerson } from '../../src/batch/as-person.ts';
import { openClient } from '../../src/postgres/connect.ts';

/** Lets the actions of a batch be proposed without a rehearsal, as a person does. */
export async function allowUnrehearsed({ url }: { url: string }, batch: string): Promise<string> {
  const client = await openClient({ url, as: 'operator', applicationName: 'madrugada test' });
  try {
    await asPerson(client, { by: 'ana', reason: 'a test' }, () =>
      client.query('SELECT madrugada.allow_unrehearsed($1)', [batch]),
    );
    return batch;
  } finally {
    await client.end();
  }
}
