import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import { CALLS_PER_TASK, type Contender, inSlots, type Place } from './contender.ts';
import { callProvider } from './provider.ts';

const State = Annotation.Root({ n: Annotation<number>(), name: Annotation<string>(), text: Annotation<string>() });

/** LangGraph: a graph whose one node loops 25 times, each step checkpointed in Postgres before the next. */
export async function openLangGraph({ databaseUrl, providerUrl }: Place): Promise<Contender> {
  const pool = new pg.Pool({ connectionString: databaseUrl });
  pool.on('error', () => undefined); // the server stops while idle connections still say goodbye
  const checkpointer = new PostgresSaver(pool);
  await checkpointer.setup();
  const graph = new StateGraph(State)
    .addNode('call', async ({ n, name }) => ({ n: n + 1, text: await callProvider(providerUrl, name, n) }))
    .addEdge(START, 'call')
    .addConditionalEdges('call', ({ n }) => (n < CALLS_PER_TASK ? 'call' : END))
    .compile({ checkpointer });
  return {
    name: 'LangGraph',
    run: (slots, tasks) =>
      inSlots(slots, tasks, (name) =>
        graph.invoke(
          { n: 0, name, text: '' },
          { configurable: { thread_id: name }, recursionLimit: CALLS_PER_TASK + 5, durability: 'sync' },
        ),
      ),
    close: () => checkpointer.end(),
  };
}
