import { fork } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { escaped, type Defect, type Planted } from './planting.ts';
import type { Asked, TestResults } from './trial-process.ts';

/** A copy of the project in which defects are planted; the project itself is only read. */
export type TrialCopy = ReturnType<typeof openTrialCopy>;

export interface FindingTest extends Pick<Defect, 'foundBy'> {
  /** Parts of titles; none, or one that is undefined: all tests of the file. */
  readonly titles: readonly (string | undefined)[];
  readonly runsProgram: boolean;
}

const left = new Set(['.git', 'node_modules', 'secrets']);

/** The caller removes it. */
export function openTrialCopy(project: string) {
  const folder = mkdtempSync(join(tmpdir(), 'planted-'));
  cpSync(project, folder, {
    recursive: true,
    preserveTimestamps: true,
    filter: (source) => !left.has(relative(project, source)),
  });
  // Each package by itself: what tools cache among them belongs to the copy.
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(join(project, 'node_modules'))) {
    const isCache = name.startsWith('.') && name !== '.bin';
    if (!isCache) symlinkSync(join(project, 'node_modules', name), join(folder, 'node_modules', name));
  }
  const child = fork(join(folder, 'test/planted/trial-process.ts'), {
    cwd: folder,
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  let changed: readonly string[] = [];
  const write = (all: readonly Planted[], which: 'text' | 'before'): void => {
    for (const one of all) writeFileSync(join(folder, one.path), one[which]);
  };

  return {
    /** Runs the tests that find a defect, with what is planted. */
    run: async (
      { foundBy, titles, runsProgram }: FindingTest,
      planted: readonly Planted[],
    ): Promise<TestResults> => {
      write(planted, 'text');
      const now = planted.map(({ path }) => join(folder, path));
      const some = titles.includes(undefined) ? [] : titles.flatMap((title) => title ?? []);
      const asked: Asked = {
        foundBy,
        titles: some.length === 0 ? null : some.map(escaped).join('|'),
        changed: [...changed, ...now],
        isToBuild: runsProgram,
      };
      child.send(asked);
      // `as`: what the child sends.
      const [results] = (await once(child, 'message')) as [TestResults];
      write(planted, 'before');
      changed = now;
      return results;
    },
    remove: async (): Promise<void> => {
      child.disconnect();
      await once(child, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
