import { DBOS } from '@dbos-inc/dbos-sdk';
import { CALLS_PER_TASK, type Contender, inSlots, type Place } from './contender.ts';
import { callProvider } from './provider.ts';

/** DBOS: a workflow of 25 steps, started and awaited in each slot. */
export async function openDbos({ databaseUrl, providerUrl }: Place): Promise<Contender> {
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: databaseUrl,
    systemDatabasePoolSize: 20,
    runAdminServer: false,
    logLevel: 'error',
  });
  const workflow = DBOS.registerWorkflow(
    async (name: string) => {
      let text = '';
      for (let n = 0; n < CALLS_PER_TASK; n += 1)
        text = await DBOS.runStep(() => callProvider(providerUrl, name, n), { name: 'call' });
      return text;
    },
    { name: 'task' },
  );
  await DBOS.launch();
  return {
    name: 'DBOS',
    run: (slots, tasks) => inSlots(slots, tasks, (name) => workflow(name)),
    close: () => DBOS.shutdown(),
  };
}
