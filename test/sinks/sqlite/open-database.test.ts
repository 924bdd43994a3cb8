import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { it } from '../../support/it.ts';
import { checkTemporaryFolder } from '../../../src/files/temporary-folder.ts';
import { openDatabase } from '../../../src/sinks/sqlite/open-database.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/schema.ts';
import { startScript } from '../../support/run-cli.ts';
import { testProgram } from '../../support/ensure-built.ts';

let folder = '';
it.beforeEach(({ folder: made }) => {
  folder = made;
});

it.each([
  ['full', 2],
  ['normal', 1],
] as const)(
  'durability %s sets synchronous to %i, and every guard and size that was measured',
  (durability, synchronous) => {
    const options = {
      file: join(folder, 'a.db'),
      format: sqliteFormat,
      durability,
      now: '2026-03-01T10:00:00.000Z',
    } as const;
    for (let round = 0; round < 2; round += 1) {
      const db = openDatabase(options);
      const names = [
        'synchronous',
        'trusted_schema',
        'cell_size_check',
        'wal_autocheckpoint',
        'cache_size',
        'journal_size_limit',
        'mmap_size',
      ];
      const values = names.map((name) => db.pragma(name, { simple: true }) ?? 0);
      const isEmptyBefore = db.prepare('SELECT seq FROM _sync_meta').pluck().get();
      db.close();
      expect(values).toEqual([synchronous, 0, 1, 4_096, -32_768, 67_108_864, 0]);
      expect(isEmptyBefore).toBe(0);
    }
  },
);

it('a sink is not opened for writing without a temporary folder', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const none = [join(folder, 'none'), file];
  expect(() => checkTemporaryFolder(none)).toThrow(
    `Expected a temporary folder that this user can write to, found none (${none.join(', ')}). Mount one at /tmp`,
  );
  expect(() => checkTemporaryFolder([...none, folder])).not.toThrow();
});

it('several processes may make the same file at the same time', async () => {
  const script = testProgram('sinks/sqlite/opening-process.mjs');
  const startAtMs = String(Date.now() + 4000);
  const processes = Array.from({ length: 4 }, () => startScript([script, folder, '25', startAtMs], folder));
  for (const { result } of processes) expect(await result).toMatchObject({ code: 0, stderr: '' });
});
