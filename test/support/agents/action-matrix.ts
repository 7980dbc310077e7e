import { z } from 'zod';
import { type ActionKind, type AnyAction, defineAction, type ReadBack } from '../../../src/action/define-action.ts';
import { emailAction } from '../../../src/action/kinds/email.ts';
import { fileAction } from '../../../src/action/kinds/file.ts';
import { httpAction } from '../../../src/action/kinds/http.ts';
import { defineAgent } from '../../../src/index.ts';
import { transferAction } from '../transfer.ts';

/** What happens to an action: it takes effect; its verification fails, so that it is rolled back; its task fails, and undoes it. */
export type Mode = 'execute' | 'verify' | 'rollback';
export type Kind = 'postgres' | 'file' | 'http' | 'email';

/** One action of the matrix; its name is unique, so that a failpoint can mean it alone. */
export interface MatrixTask {
  name: string;
  kind: Kind;
  mode: Mode;
  /** Those of the kind. */
  arguments: Record<string, unknown>;
}

/** Where the targets are: in the environment `MATRIX`, as JSON. The bank is at `BANK_URL`. */
export interface MatrixTargets {
  actions: Pick<MatrixTask, 'name' | 'kind' | 'mode'>[];
  folder: string;
  httpUrl: string;
  smtpPort: number;
  /** Tells of a message by its id whether the server has taken it. */
  mailboxUrl: string;
  /** Milliseconds that one execution may take. */
  executeWithin?: number;
}

const targets = JSON.parse(process.env.MATRIX ?? '{"actions":[]}') as MatrixTargets;

type Lists = { hits: unknown[] };

// biome-ignore lint/suspicious/noExplicitAny: each kind has types of its own
function kindOf(kind: Kind): ActionKind<any, any, any> {
  const url = targets.httpUrl;
  switch (kind) {
    case 'postgres':
      return transferAction();
    case 'file':
      return fileAction<{ path: string; content: string; replaces: string | null }>({
        root: targets.folder,
        path: ({ path }) => path,
        content: ({ content }) => content,
        replaces: ({ replaces }) => replaces,
        settleMs: 1,
      });
    case 'http':
      return httpAction<{ account: string; amount: number }>({
        method: 'POST',
        url: () => `${url}/payments`,
        body: ({ account, amount }) => ({ account, amount }),
        resource: (_, { key }) => `${url}/payments?reference=${key}`,
        pick: (json) => (json as Lists).hits,
        enforcesKey: true,
        rollback: {
          kind: 'compensating',
          plan: 'refunds the payment',
          request: ({ args: { account, amount } }) => ({
            method: 'POST',
            url: `${url}/refunds`,
            body: { account, amount },
          }),
          resource: (_, { key }) => `${url}/refunds?reference=${key}`,
          pick: (json) => (json as Lists).hits,
        },
      });
    case 'email':
      return emailAction<{ to: string; subject: string }>({
        smtp: () => ({ host: '127.0.0.1', port: targets.smtpPort, tls: { rejectUnauthorized: false } }),
        message: ({ to, subject }) => ({ from: 'desk@sender.example', to, subject, text: 'as agreed' }),
        lookUp: async ({ messageId }) => {
          const answer = await fetch(`${targets.mailboxUrl}?id=${encodeURIComponent(messageId)}`);
          return answer.ok ? { evidence: await answer.json() } : undefined;
        },
        settleMs: 1,
        rollback: {
          kind: 'compensating',
          plan: 'a correction',
          correction: ({ args: { to, subject } }) => ({
            from: 'desk@sender.example',
            to,
            subject: `Correction: ${subject}`,
            text: 'please ignore it',
          }),
        },
      });
  }
}

/** In mode `verify` the effect is there, and is said not to be the intended one. */
function actionOf({ name, kind, mode }: MatrixTargets['actions'][number]): AnyAction {
  const made = kindOf(kind);
  return defineAction({
    ...made,
    name,
    arguments: z.any(),
    intent: `the ${kind} of the matrix`,
    permissions: ['the target of the matrix'],
    blastRadius: 'one row, file, payment or message',
    approval: 'none',
    expiresIn: 86_400_000,
    ...(targets.executeWithin && { executeWithin: targets.executeWithin }),
    async verify(...look: Parameters<AnyAction['verify']>): Promise<ReadBack> {
      const found = await made.verify(...look);
      if (mode !== 'verify' || found.found !== 'effect') return found;
      return { found: 'something else', evidence: found.evidence };
    },
  });
}

const actions = targets.actions.map(actionOf);

/** Runs the one action that its input names; in mode `rollback` it fails afterwards, for good after the last attempt. */
export default defineAgent({
  input: z.object({ name: z.string(), mode: z.string(), arguments: z.any() }),
  output: z.string(),
  actions,
  async run(task) {
    const { name, mode, arguments: args } = task.input;
    const definition = actions.find((action) => action.name === name);
    if (definition === undefined) throw new Error(`no action "${name}"`);
    const { state } = await task.action(definition, args);
    if (mode === 'rollback') throw new Error('the next step is impossible');
    return state;
  },
});
