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

Faults (each request has at most one):
  refuse=429|500|529  refused, not charged            stall-headers    charged, nothing is ever sent
  stall-body          charged, half the body is sent  cut-stream       charged, half the body, then disconnected
  charge-and-drop     charged, disconnected before the headers

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
    .option('--fault <name:share,...>', 'faults for a share of all requests')
    .option('--retry-after <seconds>', 'sent with the refusals drawn by --fault')
    .option('--requests-per-minute <n>', 'more are refused with status 429, as by a rate limit')
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
