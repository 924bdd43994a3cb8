import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';

/** The version of better-sqlite3 that this Node.js cannot run. */
const unfit = Number(process.versions.napi) < 10 ? '13.2.0' : '12.11.1';
/** The sources and what the compiler left take a second to copy. */
const isNeeded = (file: string): boolean => !/\/(?:deps|src|obj|obj\.target)$/.test(file);
const runsHere = Number.parseInt(process.versions.node, 10);

describe('a better-sqlite3 that does not fit the Node.js that runs', () => {
  let folder: string;
  let library: string;

  /** What opens databases, with a better-sqlite3 that the test may spoil. */
  it.beforeEach(({ folder: made }) => {
    folder = made;
    library = path.join(folder, 'node_modules', 'better-sqlite3');
    mkdirSync(path.join(folder, 'node_modules'));
    for (const name of readdirSync('node_modules').filter((name) => !name.startsWith('.'))) {
      const target = path.resolve('node_modules', name);
      if (name === 'better-sqlite3') cpSync(target, library, { recursive: true, filter: isNeeded });
      else symlinkSync(target, path.join(folder, 'node_modules', name));
    }
    for (const name of ['package.json', 'src/core', 'src/sql/sqlite/open-sqlite.ts']) {
      cpSync(name, path.join(folder, name), { recursive: true });
    }
  });

  const opened = (): { status: number | null; stderr: string } => {
    const open = `import('${folder}/src/sql/sqlite/open-sqlite.ts').then(({ openSqlite }) => openSqlite(':memory:')).catch((error) => { console.error(error.code, error.message); process.exitCode = 1; })`;
    return spawnSync(process.execPath, ['--import', import.meta.resolve('tsx'), '-e', open], {
      encoding: 'utf8',
    });
  };

  it('is opened where it fits', () => {
    expect(opened()).toMatchObject({ status: 0, stderr: '' });
  });

  // Both versions run on Node.js 22.14 and later.
  it.skipIf(unfit === '12.11.1' && runsHere < 24)('is named in one sentence instead of crashing', () => {
    const manifest = path.join(library, 'package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace(`"${version}"`, `"${unfit}"`));
    const { status, stderr } = opened();
    expect(status).toBe(1);
    expect(stderr).toContain(
      `SQLITE_UNUSABLE The installed better-sqlite3 ${unfit} does not work on this Node.js (${process.version}`,
    );
    expect(stderr).toContain('`npm ci`');
  });

  it('is named where its binary was made for another Node.js', () => {
    for (const file of readdirSync(library, { recursive: true, encoding: 'utf8' })) {
      if (file.endsWith('.node')) writeFileSync(path.join(library, file), 'not this machine');
    }
    const { status, stderr } = opened();
    expect(status).toBe(1);
    expect(stderr).toContain('SQLITE_UNUSABLE');
    expect(stderr).toContain('holds no binary for this Node.js');
  });
});
