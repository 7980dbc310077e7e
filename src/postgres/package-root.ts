import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the package, from its sources as from its `dist`: there are `db/` and `package.json`. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'db', 'migrations'))) {
    if (folder === dirname(folder)) throw new Error('the folder db/migrations is missing from this installation');
    folder = dirname(folder);
  }
  return folder;
}
