import { packContext } from '../../src/agent/sandbox/pack-context.ts';
import { sandboxPool } from '../../src/agent/sandbox/sandbox-pool.ts';

/** A program with a sandbox and nothing else to stay for: runs one turn and closes it. */
const settings = { seed: 'ab', nowMs: 0, maxOutputChars: 1000, canRecurse: false };
const sandbox = sandboxPool().open(settings, packContext('some text'), async () => 'an answer');
const { output } = await sandbox.run(1, ["print(await llm('a question'))"]);
process.stdout.write(output);
sandbox.close();
