import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that start many processes, and so are likely to take longest, by a part of their paths: a worker that comes to one last works alone while the other waits. */
const LONG = ['journal/protocol-matrix.test.ts', '/test/night/', '/test/worker/', 'postgres/embedded.test.ts'];

/** Starts the long files first, the others as vitest would: on a new machine by size, which says nothing about processes that are killed. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONG.findIndex((part) => moduleId.includes(part));
      return place === -1 ? LONG.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
