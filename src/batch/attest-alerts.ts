import type { ClientBase } from 'pg';
import { MadrugadaError } from '../errors.ts';
import { type Finding, ok, warn } from '../postgres/finding.ts';
import { alertChannels, channelNames } from './alert-channels.ts';

/** Does an alert reach a person, by what `environment` sets up and by what became of the deliveries so far? */
export async function attestAlerts(client: ClientBase, environment: NodeJS.ProcessEnv): Promise<Finding> {
  const check = 'alerts';
  const next = 'set MADRUGADA_ALERT_WEBHOOK, MADRUGADA_ALERT_COMMAND or MADRUGADA_ALERT_SMTP for the workers';
  const names = configured(environment);
  if (names instanceof MadrugadaError) return warn(check, names.message, next);
  if (names.length === 0)
    return warn(check, 'they go nowhere, by the settings here: a night that stops at 03:00 tells nobody', next);
  const { rows } = await client.query<{ channel: string; error: string }>(
    `SELECT d.channel, max(d.last_error) AS error FROM madrugada.alert_delivery d JOIN madrugada.alert a ON a.id = d.alert_id
      WHERE d.delivered_at IS NULL AND d.last_error IS NOT NULL AND a.acknowledged_at IS NULL GROUP BY 1 ORDER BY 1`,
  );
  if (rows.length > 0)
    return warn(
      check,
      `some do not get through: ${rows.map(({ channel, error }) => `${channel} (${error})`).join(', ')}`,
      'mend the channel, then: madrugada alert deliver',
    );
  return ok(check, `they go by ${names.join(', ')}`);
}

function configured(environment: NodeJS.ProcessEnv): string[] | MadrugadaError {
  try {
    return channelNames(alertChannels(environment));
  } catch (error) {
    if (error instanceof MadrugadaError) return error;
    throw error;
  }
}
