import { type Simulator, type SimulatorOptions, startSimulator } from './server.ts';

export type StopReason = 'SIGTERM' | 'SIGINT' | 'disconnect';

/**
 * Runs a simulator until the process is told to stop by SIGTERM, SIGINT, or, where it was forked with an IPC channel,
 * the end of its parent. `announce` is called once it listens. Resolves, everything closed, with what stopped it.
 */
export async function serveUntilStopped(
  options: SimulatorOptions,
  announce: (simulator: Simulator) => void,
): Promise<StopReason> {
  const simulator = await startSimulator(options);
  const stopped = untilStopped();
  announce(simulator);
  const reason = await stopped;
  await simulator.close();
  return reason;
}

async function untilStopped(): Promise<StopReason> {
  const waiting = Promise.withResolvers<StopReason>();
  const parentGone = () => waiting.resolve('disconnect');
  process.once('SIGTERM', waiting.resolve).once('SIGINT', waiting.resolve).once('disconnect', parentGone);
  const reason = await waiting.promise;
  // While somebody listens for it, the IPC channel keeps the process alive.
  process.off('disconnect', parentGone);
  return reason;
}
