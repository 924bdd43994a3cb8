import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { testProgram } from '../support/ensure-built.ts';
import { it } from '../support/it.ts';
import { isSinkThere } from '../../src/sinks/sqlite/open-database.ts';
import { startScript } from '../support/run-cli.ts';
import { systemClock } from '../../src/core/clock.ts';
import { createNamedDirectory, createPrivateDirectory } from '../../src/files/private-file.ts';
import { openHistory, openSink } from '../../src/sinks/registry.ts';

let folder = '';
it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(() => {
  chmodSync(folder, 0o700);
});

it('makes every missing folder for its owner alone, and accepts existing ones', () => {
  const deep = join(folder, 'a', 'b', 'c');
  createPrivateDirectory(deep);
  createPrivateDirectory(deep);
  const modes = ['a', 'a/b', 'a/b/c'].map((name) => statSync(join(folder, name)).mode & 0o777);
  expect(modes).toEqual([0o700, 0o700, 0o700]);
});

it('makes the last folder of a named place, and nothing where the one above it is missing', () => {
  createNamedDirectory(join(folder, 'a'));
  createNamedDirectory(join(folder, 'a'));
  expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o700);
  expect(() => createNamedDirectory(join(folder, 'b', 'c'))).toThrow(
    `The folder ${join(folder, 'b', 'c')} cannot be made: expected the folder ${join(folder, 'b')}, found none.`,
  );
  expect(existsSync(join(folder, 'b'))).toBe(false);
  writeFileSync(join(folder, 'file'), '');
  expect(() => createNamedDirectory(join(folder, 'file', 'a'))).toThrow('is a file, expected a folder');
});

it.each(['sqlite', 'jsonl'] as const)('a %s sink is not made where its path leads nowhere', async (type) => {
  const place = join(folder, 'nowhere', 'deeper');
  const sink = type === 'sqlite' ? { type, path: join(place, 'a.db') } : { type, directory: place };
  const opening = openSink({ ...sink, name: 'a', durability: 'full' }, { clock: systemClock });
  await expect(opening).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining(`mkdir -p '${join(folder, 'nowhere')}'`) as string,
  });
  expect(readdirSync(folder)).toEqual([]);
});

it('succeeds in several processes that make the same folders at once', async () => {
  const args = [testProgram('core/private-folders-process.mjs'), String(Date.now() + 1_000)];
  const results = await Promise.all([1, 2, 3].map(() => startScript(args, folder).result));
  expect(results.map(({ code, stderr }) => [code, stderr])).toEqual(results.map(() => [0, '']));
});

it('goes into a folder behind a link', () => {
  mkdirSync(join(folder, 'real'));
  symlinkSync(join(folder, 'real'), join(folder, 'link'));
  createPrivateDirectory(join(folder, 'link', 'a'));
  expect(existsSync(join(folder, 'real', 'a'))).toBe(true);
});

it.skipIf(!existsSync('/proc/self'))(
  'gives up where a folder is there and yet nothing can be made in it',
  () => {
    expect(() => createPrivateDirectory('/proc/nope/deep')).toThrow('ENOENT');
  },
);

it('gives up below a link that leads nowhere', () => {
  symlinkSync(join(folder, 'gone'), join(folder, 'link'));
  expect(() => createPrivateDirectory(join(folder, 'link', 'a'))).toThrow('ENOENT');
});

it.each(['file', 'file/a', 'file/a/b'])('says that %s is or lies below a file', (name) => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(() => createPrivateDirectory(join(folder, name))).toThrow(`${file} is a file, expected a folder`);
});

it('tells a missing sink from a path that is something else', () => {
  writeFileSync(join(folder, 'file'), '');
  expect(isSinkThere(join(folder, 'none', 'a.db'))).toBe(false);
  expect(isSinkThere(join(folder, 'file'))).toBe(true);
  expect(() => isSinkThere(folder)).toThrow(`${folder} was expected to be a regular file`);
  expect(() => isSinkThere(join(folder, 'file', '_ledger.db'))).toThrow('is a file, expected a folder');
});

it('says on the read path too that a path is a folder', async () => {
  const options = { type: 'sqlite', name: 'main', path: folder, durability: 'full' } as const;
  await expect(openHistory(options)).rejects.toThrow(`${folder} was expected to be a regular file`);
});

it.skipIf(process.getuid?.() === 0)('takes a folder that may not be entered for no empty one', () => {
  chmodSync(folder, 0o000);
  expect(() => isSinkThere(join(folder, 'a.db'))).toThrow('EACCES');
});
