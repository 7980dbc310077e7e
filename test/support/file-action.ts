import { fileAction } from '../../src/action/kinds/file.ts';

/** A file to be written below a root, and the hash of what it may replace. */
export interface Writing {
  path: string;
  content: string;
  replaces: string | null;
}

/** Writes files below `root`. */
export function writeAction(root: string) {
  return fileAction<Writing>({
    root,
    path: ({ path }) => path,
    content: ({ content }) => content,
    replaces: ({ replaces }) => replaces,
  });
}
