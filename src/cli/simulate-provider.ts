import type { Command } from 'commander';
import { MadrugadaError } from '../errors.ts';
import { DEFAULT_BILL, optionsFromFlags, type SimulatorFlags } from '../simulator/flags.ts';
import { serveUntilStopped } from '../simulator/serve.ts';
import type { Simulator } from '../simulator/server.ts';
import { SimulatorError } from '../simulator/simulator-error.ts';

const INTERRUPTED = 130;

const HELP = `
Answers the Anthropic Messages API on 127.0.0.1 until interrupted, and writes its own bill, one line per charge.

Example:
  madrugada simulate-provider --port 8089 --bill bill.jsonl --latency-ms 50-200 --fault refuse=529:0.05,cut-stream:0.01
  ANTHROPIC_BASE_URL=http://127.0.0.1:8089 ANTHROPIC_API_KEY=any madrugada run 2026-11

Faults (each request has at most one; of a lost answer what was produced is charged):
  refuse=429|500|502|503|504|529        refused, not charged
  page=200|502|503                      a proxy's page instead; the provider has not seen the request, not charged
  page=504                              a proxy's page; the provider has answered, charged
  error-first=TYPE                      an error event, or body, with status 200, before any content; not charged
  error-late=TYPE                       the same after some content; charged
  stall-headers                         nothing is ever sent; charged
  stall-body, cut-stream, end-early     half the answer, then silence, or a broken connection, or an orderly end; charged
  charge-and-drop                       disconnected before the headers; charged
TYPE is overloaded_error, api_error or rate_limit_error. --faults draws from all of these unless --fault-kinds says
which. Only where they are named: refuse=401|402|403|credit and the TYPEs authentication_error, billing_error and
permission_error, which stop a batch.

One request can ask for a fault itself, with a header such as "x-simulate: refuse=429,retry-after=2,once".`;

/** `madrugada simulate-provider`: the provider to rehearse against. */
export function register(program: Command): void {
  program
    .command('simulate-provider')
    .description('run a simulated provider with its own bill')
    .option('--port <port>', 'port on 127.0.0.1; 0 picks a free one', '0')
    .option('--bill <file>', 'the bill, JSON Lines, appended to', DEFAULT_BILL)
    .option('--latency-ms <n|min-max>', 'time until an answer is produced', '0')
    .option('--seed <seed>', 'decides which requests the faults strike', '0')
    .option('--fault <name:share,...>', 'faults, each with its share of all requests')
    .option('--faults <share>', 'trouble of many kinds for this share of all requests, e.g. 0.2')
    .option('--fault-kinds <name,...>', 'the kinds that --faults divides its share among')
    .option('--retry-after <n,...>', 'sent with refusals, one drawn for each: 2 (seconds), 500ms or 2date')
    .option('--requests-per-minute <n>', 'more are refused with status 429, as by a rate limit; each model has its own')
    .option('--burst <n>', 'requests of that limit that may come at once; a minute’s by default')
    .option('--arrivals <file>', 'list every request for a message as it arrives, JSON Lines, appended to')
    .option('--json', 'print the address as JSON')
    .addHelpText('after', HELP)
    .action(simulateProvider);
}

async function simulateProvider(flags: SimulatorFlags & { json?: boolean }): Promise<void> {
  try {
    const reason = await serveUntilStopped(optionsFromFlags(flags), (simulator) =>
      process.stdout.write(`${announcement(simulator, flags.json === true)}\n`),
    );
    if (reason === 'SIGINT') process.exitCode = INTERRUPTED;
  } catch (error) {
    if (error instanceof SimulatorError) throw new MadrugadaError(error.message, 2, { cause: error });
    throw error;
  }
}

function announcement({ url, bill }: Simulator, json: boolean): string {
  return json ? JSON.stringify({ url, bill }) : `simulated provider on ${url}, bill ${bill}`;
}
