import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect } from 'vitest';
import { documents } from './support/document-commands.ts';
import { it } from './support/it.ts';

const script = resolve('.ci/names.mjs');
const project = JSON.parse(readFileSync('project.json', 'utf8')) as Record<string, unknown>;
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

function names(folder: string, ...args: readonly string[]) {
  const { status, stderr } = spawnSync(process.execPath, [script, ...args], {
    cwd: folder,
    encoding: 'utf8',
  });
  return { status, stderr };
}

/** The texts that may hold the names, with other words in project.json. */
function copyWith(folder: string, changed: Readonly<Record<string, unknown>>): void {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    encoding: 'utf8',
  });
  for (const file of files.trim().split('\n')) {
    if (/^(?:src|test|bench)\//.test(file)) continue;
    mkdirSync(join(folder, file, '..'), { recursive: true });
    cpSync(file, join(folder, file));
  }
  writeFileSync(join(folder, 'project.json'), JSON.stringify({ ...project, ...changed }));
}

describe('the names of package and repository', () => {
  it('are the same in project.json and in every text', () => {
    expect(names('.', 'check')).toEqual({ status: 0, stderr: '' });
  });

  it('are written into every text from there', ({ folder }) => {
    copyWith(folder, { name: '@owner/sync', repository: 'github.com/owner/sync' });
    expect(names(folder, 'check')).toMatchObject({ status: 1, stderr: expect.stringContaining('README.md') });
    expect(names(folder, 'write')).toEqual({ status: 0, stderr: '' });
    expect(names(folder, 'check')).toEqual({ status: 0, stderr: '' });
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as unknown;
    expect(manifest).toMatchObject({
      name: '@owner/sync',
      homepage: 'https://github.com/owner/sync#readme',
      repository: { type: 'git', url: 'git+https://github.com/owner/sync.git' },
      bugs: { url: 'https://github.com/owner/sync/issues' },
      publishConfig: { access: 'public', provenance: true },
    });
    const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as unknown;
    expect(lock).toMatchObject({ name: '@owner/sync', packages: { '': { name: '@owner/sync' } } });
    for (const file of ['README.md', 'docs/library.md']) {
      const text = readFileSync(join(folder, file), 'utf8');
      expect([file, text.includes('@owner/sync'), text.includes('@connector-sync/cli')]).toEqual([
        file,
        true,
        false,
      ]);
    }
  });

  it.for([
    ['no scope', { name: 'connector-sync' }, 'expected a name with a scope'],
    ['another host', { repository: 'example.com/a/b' }, 'expected a repository such as'],
  ] as const)('are refused with %s', ([, changed, message], { folder }) => {
    copyWith(folder, changed);
    expect(names(folder, 'write')).toMatchObject({ status: 1, stderr: expect.stringContaining(message) });
  });

  it('let nothing be published before they are confirmed, nor under a tag of another version', ({
    folder,
  }) => {
    copyWith(folder, { confirmed: false });
    expect(names(folder, 'release', `v${version}`)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('set "confirmed": true in project.json'),
    });
    copyWith(folder, { confirmed: true });
    expect(names(folder, 'release', `v${version}`)).toEqual({ status: 0, stderr: '' });
    expect(names(folder, 'release', 'v9.9.9')).toMatchObject({ status: 1 });
  });

  it.each(documents)('%s calls the installed program, and installs it by no other name', (document) => {
    const text = readFileSync(document, 'utf8');
    expect(text.match(/npx (?!--no-install )(?:-\S+ )*connector-sync\b/g)).toBeNull();
    const installed = [...text.matchAll(/npm (?:install|i|add) ([^`\n]*)/g)].flatMap(([, words = '']) =>
      words.split(' '),
    );
    expect(installed.filter((word) => word.includes('connector-sync') && word !== project['name'])).toEqual(
      [],
    );
  });
});
