import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';

const FILE = 'madrugada.config.ts';

/** Settings that an environment variable of higher rank may give, by the variable's name. */
const VARIABLES = {
  databaseUrl: 'DATABASE_URL',
  home: 'MADRUGADA_HOME',
  baseUrl: 'ANTHROPIC_BASE_URL',
  log: 'MADRUGADA_LOG',
  dispatchSeconds: 'MADRUGADA_DISPATCH_SECONDS',
  headersSeconds: 'MADRUGADA_HEADERS_SECONDS',
  idleSeconds: 'MADRUGADA_IDLE_SECONDS',
  restSeconds: 'MADRUGADA_REST_SECONDS',
  maxDispatches: 'MADRUGADA_MAX_DISPATCHES',
  callSeconds: 'MADRUGADA_CALL_SECONDS',
  retryAfterCapSeconds: 'MADRUGADA_RETRY_AFTER_CAP_SECONDS',
  maxWaitSeconds: 'MADRUGADA_MAX_WAIT_SECONDS',
  hungSeconds: 'MADRUGADA_HUNG_SECONDS',
  stuckSeconds: 'MADRUGADA_STUCK_SECONDS',
  lookUp: 'MADRUGADA_LOOK_UP',
  tagHeaders: 'MADRUGADA_TAG_HEADERS',
  tagLitellm: 'MADRUGADA_TAG_LITELLM',
  tagBody: 'MADRUGADA_TAG_BODY',
  alertWebhook: 'MADRUGADA_ALERT_WEBHOOK',
  alertCommand: 'MADRUGADA_ALERT_COMMAND',
  alertSmtp: 'MADRUGADA_ALERT_SMTP',
  alertMailFrom: 'MADRUGADA_ALERT_MAIL_FROM',
  alertMailTo: 'MADRUGADA_ALERT_MAIL_TO',
} as const;

/**
 * Gives a command about to run what `madrugada.config.ts` in the current folder says, where neither a flag nor the environment says it. Throws
 * a MadrugadaError, which names the file, when it cannot be loaded or says something unknown.
 */
export async function applyConfig(command: Command): Promise<void> {
  const file = resolve(FILE);
  if (!existsSync(file)) return;
  const { readConfig } = await import('./config.ts');
  for (const [name, value] of Object.entries(await readConfig(file))) {
    if (value === undefined) continue;
    if (isVariable(name)) process.env[VARIABLES[name]] ||= textOf(value);
    else if (command.getOptionValueSource(name) === 'default') command.setOptionValueWithSource(name, value, 'config');
  }
}

function isVariable(name: string): name is keyof typeof VARIABLES {
  return name in VARIABLES;
}

/** As the environment spells it: a switch that is on is 1. */
function textOf(value: string | number | boolean): string {
  if (typeof value !== 'boolean') return String(value);
  return value ? '1' : '0';
}
