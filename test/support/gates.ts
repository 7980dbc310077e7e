import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GATE_FOLDER, type GATED } from './gate-environment.ts';
import { until } from './until.ts';

/** A failpoint held shut: whoever comes to it waits until it is opened. */
export interface Gate {
  /** Resolves once somebody waits at it. */
  reached(): Promise<void>;
  open(): void;
}

/** Shuts a failpoint of this process. The test file must import `gate-environment.ts` first. */
export function shutGate(name: (typeof GATED)[number]): Gate {
  const file = join(GATE_FOLDER, name);
  rmSync(`${file}.reached`, { force: true });
  writeFileSync(file, '');
  return {
    async reached() {
      await until(`failpoint ${name} is reached`, () => existsSync(`${file}.reached`));
    },
    open: () => rmSync(file, { force: true }),
  };
}

/** Opens what a failed test left shut. */
export function openAllGates(): void {
  rmSync(GATE_FOLDER, { recursive: true, force: true });
}
