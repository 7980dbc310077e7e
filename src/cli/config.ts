import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { MadrugadaError, messageOf } from '../errors.ts';

const seconds = z.number().positive();
const count = z.int().positive();

/** There is no setting for the provider's key: it belongs into the environment, and is never stored. */
const configSchema = z.strictObject({
  databaseUrl: z.string().optional(),
  home: z.string().optional(),
  baseUrl: z.url().optional(),
  log: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).optional(),
  dispatchSeconds: seconds.optional(),
  headersSeconds: seconds.optional(),
  idleSeconds: seconds.optional(),
  restSeconds: seconds.optional(),
  maxDispatches: count.optional(),
  callSeconds: seconds.optional(),
  retryAfterCapSeconds: seconds.optional(),
  maxWaitSeconds: seconds.optional(),
  hungSeconds: seconds.optional(),
  stuckSeconds: seconds.optional(),
  lookUp: z.string().optional(),
  tagHeaders: z.string().optional(),
  tagLitellm: z.boolean().optional(),
  tagBody: z.boolean().optional(),
  alertWebhook: z.string().optional(),
  alertCommand: z.string().optional(),
  alertSmtp: z.string().optional(),
  alertMailFrom: z.string().optional(),
  alertMailTo: z.string().optional(),
  /** Defaults of the flags of these names, for the commands that have them. */
  workers: count.optional(),
  concurrency: count.optional(),
});

/** What `madrugada.config.ts` may say; every setting may be left out. */
export type Config = z.input<typeof configSchema>;

/** The settings in `file`. Throws a MadrugadaError, which names it, when it cannot be loaded or says something unknown. */
export async function readConfig(file: string): Promise<Config> {
  const result = configSchema.safeParse(await importDefault(file));
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) => [...path.map(String), message].join(': '));
  throw new MadrugadaError(
    `${file}: ${problems.join('; ')}. It may say: ${Object.keys(configSchema.shape).join(', ')}`,
  );
}

async function importDefault(file: string): Promise<unknown> {
  try {
    const module: { default?: unknown } = await import(pathToFileURL(file).href);
    return module.default;
  } catch (error) {
    throw new MadrugadaError(`${file} cannot be loaded: ${messageOf(error)}`, 2, { cause: error });
  }
}
