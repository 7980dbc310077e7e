import { existsSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

// Loaded before the simulator (`--import`), it makes a disk of the one there is that takes its time: nothing is durable while the file
// SLOW_DISK_GATE exists. The first that waits is shown by SLOW_DISK_GATE.reached.
const gate = process.env.SLOW_DISK_GATE ?? '';
const file = await open(process.execPath);
const prototype: { sync(): Promise<void> } = Object.getPrototypeOf(file);
await file.close();
const { sync } = prototype;
prototype.sync = async function (this: unknown) {
  while (existsSync(gate)) {
    writeFileSync(`${gate}.reached`, '');
    await delay(10);
  }
  await sync.call(this);
};
