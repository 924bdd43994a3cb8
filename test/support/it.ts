import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it as withoutFixtures } from 'vitest';

/**
 * vitest's `it` with folders, each made for the test that names it and removed afterwards, also after a failure:
 * `folder` for one test or its `it.beforeEach`, `fileFolder` for `it.beforeAll` and all tests of a file.
 */
export const it = withoutFixtures
  .extend('folder', newFolder)
  .extend('fileFolder', { scope: 'file' }, newFolder);

// oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern which fixtures this one needs.
function newFolder({}: object, { onCleanup }: { onCleanup: (remove: () => void) => void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-'));
  onCleanup(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
