import { parseArgs } from 'node:util';
import { optionsFromFlags, type SimulatorFlags } from './flags.ts';
import { serveUntilStopped } from './serve.ts';
import { SimulatorError } from './simulator-error.ts';

/** The simulator as a process of its own: prints `{"url","bill","pid"}` on one line once it listens. */
async function main(): Promise<void> {
  await serveUntilStopped(optionsFromFlags(readFlags()), ({ url, bill }) => {
    process.stdout.write(`${JSON.stringify({ url, bill, pid: process.pid })}\n`);
  });
}

function readFlags(): SimulatorFlags {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      port: text,
      bill: text,
      'latency-ms': text,
      seed: text,
      fault: text,
      faults: text,
      'fault-kinds': text,
      'retry-after': text,
      'requests-per-minute': text,
      burst: text,
      arrivals: text,
    },
  });
  return {
    ...values,
    latencyMs: values['latency-ms'],
    faultKinds: values['fault-kinds'],
    retryAfter: values['retry-after'],
    requestsPerMinute: values['requests-per-minute'],
  };
}

function isWrongUsage(error: unknown): error is Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return error instanceof SimulatorError || code.startsWith('ERR_PARSE_ARGS');
}

try {
  await main();
} catch (error) {
  if (!isWrongUsage(error)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
