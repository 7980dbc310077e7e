/**
 * Wrong settings for the simulator: the message says which one and what is accepted.
 * Own class, because the simulator stands in for somebody else's server and imports nothing from the engine.
 */
export class SimulatorError extends Error {
  override readonly name = 'SimulatorError';
}
