import { resolve } from 'node:path';

/** The folder that belongs to this installation: `$MADRUGADA_HOME`, else `.madrugada` below the current folder. Absolute. */
export function madrugadaHome(): string {
  return resolve(process.env.MADRUGADA_HOME || '.madrugada');
}
