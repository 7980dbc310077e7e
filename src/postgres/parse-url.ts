import { MadrugadaError } from '../errors.ts';

/** The parts of a database's URL. Throws a MadrugadaError, which does not repeat it, when it is not one. */
export function parseDatabaseUrl(url: string): URL {
  if (/^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return new URL(url);
  throw new MadrugadaError('DATABASE_URL is not a URL of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE');
}
