import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { NoEffect, UndoRefused } from '../../../src/action/define-action.ts';
import { fileAction } from '../../../src/action/kinds/file.ts';
import { hashOf } from '../../../src/action/kinds/file-content.ts';
import { keyOf, startExecution } from '../../support/action-process.ts';
import { type Writing, writeAction } from '../../support/file-action.ts';
import { testFolder } from '../../support/test-folder.ts';
import { until } from '../../support/until.ts';

const sha = (text: string) => hashOf(Buffer.from(text));
const OLD = 'the licence ends in 2026\n';
const NEW = 'the licence ends in 2031\n';
const signal = new AbortController().signal;

/** A root with a report in it, or none; and the action that writes it. */
function setting(present: string | null = OLD) {
  const root = testFolder();
  const path = join(root, 'report.txt');
  if (present !== null) writeFileSync(path, present, { mode: 0o640 });
  const action = writeAction(root);
  const args: Writing = { path: 'report.txt', content: NEW, replaces: present === null ? null : sha(present) };
  const before = { sha256: args.replaces, bytes: present?.length ?? 0, mode: 0o640 };
  const context = { key: keyOf('a'), signal };
  const undoArguments = { args, before, effect: undefined, seen: undefined };
  return {
    root,
    path,
    action,
    args,
    before,
    execute: (changes: Partial<Writing> = {}, key = 'a') =>
      action.execute({ ...args, ...changes }, before, { key: keyOf(key), signal }),
    verify: async () => (await action.verify(args, before, undefined, context)).found,
    undo: async () => {
      if (action.rollback.kind !== 'in-band') throw new Error('a file is undone in-band');
      await action.rollback.undo(undoArguments, context);
    },
    start: (what: 'execute' | 'undo', failpoint = '', key = 'a', content = NEW) =>
      startExecution(['write', what, keyOf(key), JSON.stringify({ ...args, content }), JSON.stringify(before), root], {
        failpoint,
      }),
    read: () => (existsSync(path) ? readFileSync(path, 'utf8') : null),
  };
}

describe('the effect', () => {
  test('a file is replaced, read back, and its previous content kept', async () => {
    const { action, args, execute, verify, read, path } = setting();
    expect(await action.precondition(args, { key: keyOf('a'), signal })).toEqual({
      holds: true,
      before: { sha256: sha(OLD), bytes: OLD.length, mode: 0o640 },
    });
    expect(await verify()).toBe('nothing');
    const { previous } = await execute();
    expect(read()).toBe(NEW);
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(readFileSync(previous ?? '', 'utf8')).toBe(OLD);
    expect(await verify()).toBe('effect');
  });

  test('a file that was not there is created', async () => {
    const { action, args, execute, verify, read } = setting(null);
    expect(await action.precondition(args, { key: keyOf('a'), signal })).toMatchObject({ holds: true });
    await execute();
    expect(read()).toBe(NEW);
    expect(await verify()).toBe('effect');
  });

  test('the same content written twice is one effect', async () => {
    const { execute, read, path } = setting();
    const first = await execute();
    const { ino } = statSync(path);
    expect(await execute()).toEqual(first);
    expect(statSync(path).ino).toBe(ino);
    expect(read()).toBe(NEW);
  });

  test('the approver is shown what is there now', async () => {
    const { action, args, path } = setting();
    const intended = { sha256: sha(NEW), bytes: NEW.length, text: NEW };
    const now = { path, sha256: sha(OLD), bytes: OLD.length, mode: 0o640, text: OLD };
    expect(await action.present?.(args)).toEqual({ ...now, intended });
  });

  test('a content that was there already is weak evidence of having been written', async () => {
    const { action, before } = setting();
    const same = { path: 'report.txt', content: OLD, replaces: sha(OLD) };
    await action.execute(same, before, { key: keyOf('a'), signal });
    expect(await action.verify(same, before, undefined, { key: keyOf('a'), signal })).toMatchObject({
      found: 'effect',
      strength: 'weak',
    });
  });
});

describe('no effect', () => {
  test('on a content other than the one shown at the proposal', async () => {
    const { action, args, execute, read, path } = setting();
    writeFileSync(path, 'changed meanwhile');
    expect(await action.precondition(args, { key: keyOf('a'), signal })).toMatchObject({
      holds: false,
      why: expect.stringContaining('not what was shown'),
    });
    await expect(execute()).rejects.toThrow(NoEffect);
    expect(read()).toBe('changed meanwhile');
  });

  test('where a file was removed, or created, since', async () => {
    const gone = setting();
    rmSync(gone.path);
    await expect(gone.execute()).rejects.toThrow(NoEffect);
    expect(gone.read()).toBeNull();
    const come = setting(null);
    writeFileSync(come.path, 'somebody else');
    await expect(come.execute()).rejects.toThrow(NoEffect);
    expect(come.read()).toBe('somebody else');
  });

  test('when a precondition of its own objects', async () => {
    const { root } = setting();
    const growing = fileAction<{ content: string }>({
      root,
      path: () => 'report.txt',
      content: ({ content }) => content,
      precondition: ({ content }, { bytes }) =>
        content.length < bytes ? `it would shrink from ${bytes} bytes` : undefined,
    });
    expect(await growing.precondition({ content: 'x' }, { key: keyOf('a'), signal })).toEqual({
      holds: false,
      why: `it would shrink from ${OLD.length} bytes`,
    });
  });

  test('a declaration without any precondition is refused', () => {
    expect(() => fileAction({ root: '/tmp', path: () => 'x', content: () => 'x' })).toThrow(/replaces/);
  });

  test.each([
    ['../outside.txt', /outside of/],
    ['/etc/passwd', /outside of/],
    ['.', /outside of/],
    ['', /not the name/],
    ['folder/', /not the name/],
    ['absent/report.txt', /folder of .*ENOENT/],
    ['way-out/report.txt', /leads out of/],
    ['link-out.txt', /leads out of/],
    ['dangling', /leads to nothing/],
    ['folder', /not a regular file/],
    ['pipe', /not a regular file/],
  ])('outside of the root, or on no regular file: %j', async (path, why) => {
    const { root, action, args, before } = setting();
    const outside = testFolder();
    writeFileSync(join(outside, 'other.txt'), 'other');
    mkdirSync(join(root, 'folder'));
    symlinkSync(outside, join(root, 'way-out'));
    symlinkSync(join(outside, 'other.txt'), join(root, 'link-out.txt'));
    symlinkSync(join(root, 'nothing'), join(root, 'dangling'));
    execFileSync('mkfifo', [join(root, 'pipe')]);
    const precondition = await action.precondition({ ...args, path }, { key: keyOf('a'), signal });
    expect(precondition).toMatchObject({ holds: false, why: expect.stringMatching(why) });
    await expect(action.execute({ ...args, path }, before, { key: keyOf('a'), signal })).rejects.toThrow(NoEffect);
  });

  test('a symlink that stays inside is followed, and stays a symlink', async () => {
    const { root, action, args, before, read } = setting();
    symlinkSync('report.txt', join(root, 'latest'));
    await action.execute({ ...args, path: 'latest' }, before, { key: keyOf('a'), signal });
    expect(read()).toBe(NEW);
  });
});

describe('the undo', () => {
  test('restores the previous content once, and then nothing is found', async () => {
    const { execute, undo, verify, read, path } = setting();
    await execute();
    await undo();
    expect(read()).toBe(OLD);
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(await verify()).toBe('nothing');
    writeFileSync(path, NEW); // by a person, who wants it after all
    await undo();
    expect(read()).toBe(NEW);
  });

  test('removes a file that was not there before', async () => {
    const { execute, undo, verify, read } = setting(null);
    await execute();
    await undo();
    expect(read()).toBeNull();
    expect(await verify()).toBe('nothing');
  });

  test.each([OLD, null])('is refused when somebody has written since (before: %j)', async (present) => {
    const { execute, undo, verify, read, path } = setting(present);
    await execute();
    writeFileSync(path, 'by somebody else');
    expect(await verify()).toBe('something else');
    await expect(undo()).rejects.toThrow(UndoRefused);
    expect(read()).toBe('by somebody else');
  });

  test('keeps a late execution from happening', async () => {
    const { execute, undo, read } = setting();
    await undo();
    await expect(execute()).rejects.toThrow(NoEffect);
    expect(read()).toBe(OLD);
  });

  test('says so when the kept content is no longer what it was', async () => {
    const { execute, undo, read } = setting();
    const { previous } = await execute();
    writeFileSync(previous ?? '', 'rotten');
    await expect(undo()).rejects.toThrow(/from a backup/);
    expect(read()).toBe(NEW);
  });
});

describe('the worst moments', () => {
  test.each([
    ['kept', 'nothing'],
    ['draft', 'nothing'],
    ['checked', 'nothing'],
    ['renamed', 'effect'],
    ['synced', 'effect'],
  ] as const)(
    'killed at %s: %s is found, the file is whole, and the next execution ends with the effect',
    async (place, found) => {
      for (const present of [OLD, null]) {
        const { start, verify, execute, undo, read, root } = setting(present);
        expect(await start('execute', `action.file.${place}:kill`).result).toMatchObject({ signal: 'SIGKILL' });
        expect(await verify()).toBe(found);
        expect(read()).toBe(found === 'nothing' ? present : NEW);
        await execute();
        expect(read()).toBe(NEW);
        expect(leftDrafts(root)).toEqual([]);
        await undo();
        expect(read()).toBe(present);
      }
    },
  );

  test.each(['checked', 'renamed', 'restored'])('an undo killed at %s is finished by the next', async (place) => {
    const { start, verify, execute, undo, read } = setting();
    await execute();
    expect(await start('undo', `action.file.${place}:kill`).result).toMatchObject({ signal: 'SIGKILL' });
    await undo();
    expect(read()).toBe(OLD);
    expect(await verify()).toBe('nothing');
  });

  test('a removal killed half-way is finished by the next undo', async () => {
    const { start, verify, execute, undo, read } = setting(null);
    await execute();
    expect(await start('undo', 'action.file.aside:kill').result).toMatchObject({ signal: 'SIGKILL' });
    await undo();
    expect(read()).toBeNull();
    expect(await verify()).toBe('nothing');
  });

  test('an executor frozen just before its rename cannot overwrite what came after it was overtaken', async () => {
    const { start, execute, read, path, root } = setting();
    const frozen = start('execute', 'action.file.checked:stop');
    await untilStopped(frozen.process.pid);
    await execute();
    writeFileSync(path, 'a later version, by somebody else');
    frozen.process.kill('SIGCONT');
    expect((await frozen.result).code).not.toBe(0);
    expect(read()).toBe('a later version, by somebody else');
    expect(leftDrafts(root)).toEqual([]);
  });

  test('an executor frozen just before its rename cannot bring back what was undone', async () => {
    const { start, undo, read } = setting();
    const frozen = start('execute', 'action.file.checked:stop');
    await untilStopped(frozen.process.pid);
    await undo();
    frozen.process.kill('SIGCONT');
    expect((await frozen.result).stderr).toContain('NoEffect');
    expect(read()).toBe(OLD);
  });

  test('an executor frozen before it creates a file cannot overwrite one created meanwhile', async () => {
    const { start, read, path } = setting(null);
    const frozen = start('execute', 'action.file.checked:stop');
    await untilStopped(frozen.process.pid);
    writeFileSync(path, 'by a program that knows nothing of drafts');
    frozen.process.kill('SIGCONT');
    expect((await frozen.result).stderr).toContain('NoEffect');
    expect(read()).toBe('by a program that knows nothing of drafts');
  });

  test('four processes with one key make one effect', async () => {
    const { start, read, root } = setting();
    const results = await Promise.all(Array.from({ length: 4 }, () => start('execute').result));
    expect(results.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(read()).toBe(NEW);
    expect(leftDrafts(root)).toEqual([]);
  });

  test('of twenty actions on one content exactly one takes effect', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { execute, read, root } = setting(round % 2 === 0 ? OLD : null);
      const contents = Array.from({ length: 20 }, (_, n) => `version ${n}`);
      const results = await Promise.allSettled(contents.map((content, n) => execute({ content }, `action ${n}`)));
      const written = contents.filter((_, n) => results[n]?.status === 'fulfilled');
      expect(written).toEqual([read()]);
      for (const result of results) if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(NoEffect);
      expect(leftDrafts(root)).toEqual([]);
    }
  });
});

function leftDrafts(root: string): string[] {
  return execFileSync('find', [root, '-name', '*.draft', '-o', '-name', '*.copy', '-o', '-name', '*.aside'], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter((line) => line !== '');
}

/** Until the process is stopped, all of it. */
function untilStopped(pid: number | undefined): Promise<true> {
  return until(
    'the process is frozen',
    () => /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')) || undefined,
  );
}
