import type { Config } from './config.ts';

/** Declares the settings of an installation; the default export of `madrugada.config.ts`. */
export function defineConfig(config: Config): Config {
  return config;
}
