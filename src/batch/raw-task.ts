/** One line of a batch file, parsed but not yet judged. */
export type RawTask = {
  /** Where the line starts in the file, from 1. */
  readonly line: number;
  /** As it stood in the file: absent, or of any type. */
  readonly item: unknown;
  /** All other columns. */
  readonly input: Readonly<Record<string, unknown>>;
  /** The same as JSON text, with every number spelled as in the file. */
  readonly inputJson: string;
};
