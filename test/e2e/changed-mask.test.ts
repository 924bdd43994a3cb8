import Database from 'better-sqlite3';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';

const mask = (rule: string): string =>
  `    mask: { list_members: { fields: { email_address: ${rule}, ip_signup: { truncate: 3 } } } }\n`;

/** Puts the masks into the config; null: none. */
function setMask(world: CliWorld, rule: string | null, key: string): void {
  const [config = ''] = readFileSync(world.config, 'utf8').split('\nmask:');
  const without = config.replace(/^ {4}mask: .*\n/m, '');
  const text = rule === null ? without : without.replace('  wiki:\n', `${mask(rule)}  wiki:\n`);
  writeFileSync(world.config, `${text}\nmask: { key: "${key}" }\n`);
}

const newKey = (): string => randomBytes(32).toString('base64');

function addresses(world: CliWorld, where: string): readonly string[] {
  const db = new Database(join(world.folder, 'main.db'), { readonly: true });
  try {
    const sql = `SELECT email_address FROM newsletter__list_members WHERE ${where}`;
    return db.prepare<[], string>(sql).pluck().all();
  } finally {
    db.close();
  }
}

async function maskLines(world: CliWorld): Promise<readonly string[]> {
  const { stdout } = await world.cli('status', 'newsletter');
  const text = stdout.replaceAll(/\n {4,}/g, ' ');
  return text.split('\n').filter((line) => line.includes('mask of'));
}

// Proves promise 10.5
it('reads in full and rewrites what it masks in another way than before, and says what is as before', async () => {
  await using world = await openCliWorld();
  const key = newKey();
  setMask(world, null, key);
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  world.moveTo(3);
  expect((await world.cli('sync', 'newsletter', '--full', '--allow-deletes')).code).toBe(0);
  const deleted = addresses(world, '_deleted_at IS NOT NULL');
  expect(deleted.length).toBeGreaterThan(0);
  expect(await maskLines(world)).toEqual([]);

  setMask(world, '{ hash: { as: email } }', key);
  expect((await maskLines(world)).join()).toContain('not in use yet, all that is stored is as before');
  expect((await world.cli('sync', 'newsletter', '--max-calls', '5')).code).toBe(0);
  expect((await maskLines(world)).join()).toContain('rows that no read has reached since are as before');
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const hashed = addresses(world, '_deleted_at IS NULL');
  expect(hashed.every((address) => /^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/.test(address))).toBe(true);
  expect(addresses(world, '_deleted_at IS NOT NULL')).toEqual(deleted);
  const [line = ''] = await maskLines(world);
  expect(line).toContain(`deleted rows (of ${deleted.length} those deleted before)`);

  const [again = {}] = await world.json('sync', 'newsletter').then((lines) => lines.slice(-1));
  expect(JSON.stringify(again)).not.toContain('"updated":1');
  expect(addresses(world, '_deleted_at IS NULL')).toEqual(hashed);

  // Another key: all hashes are others, and say so.
  setMask(world, '{ hash: { as: email } }', newKey());
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const rotated = addresses(world, '_deleted_at IS NULL');
  expect(new Set([...rotated, ...hashed]).size).toBe(new Set(hashed).size * 2);
  expect(rotated[0]?.slice(0, 14)).not.toBe(hashed[0]?.slice(0, 14));

  setMask(world, 'drop', key);
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  expect(addresses(world, '_deleted_at IS NULL').filter((address) => address !== null)).toEqual([]);
});

it('names in check what masks leave open', async () => {
  await using world = await openCliWorld();
  setMask(world, 'hash', newKey());
  await world.cli('sync', 'newsletter');
  const { stdout } = await world.cli('check');
  expect(stdout).toContain(
    '! mask of newsletter/list_members: id is stored in clear and gives email_address away',
  );
});

// Proves promise 10.5
it('shows tokens of pages of a masked entity sealed, and takes them back', async () => {
  await using world = await openCliWorld();
  const list = ['list', 'wiki/users', '--param', 'page_size=2'];
  const nextToken = async (): Promise<string> => {
    const [shown] = (await world.json(...list)) as readonly { readonly next: { readonly token: string } }[];
    return shown?.next.token ?? '';
  };
  const clear = await nextToken();
  const config = readFileSync(world.config, 'utf8');
  const masked = config.replace(
    'id: c-wiki\n',
    'id: c-wiki\n    mask: { users: { fields: { name: drop } } }\n',
  );
  writeFileSync(world.config, `${masked}mask: { key: "${newKey()}" }\n`);
  const token = await nextToken();
  expect(token).toMatch(/^sealed:/);
  const ids = async (given: string): Promise<readonly unknown[]> => {
    const [page] = await world.json(...list, '--param', `start_cursor=${given}`);
    return ((page?.['records'] ?? []) as readonly { readonly id: string }[]).map(({ id }) => id);
  };
  expect(await ids(token)).toEqual(await ids(clear));
  const tried = await world.cli(
    'definitions',
    'try',
    'workspace-notes',
    'users',
    '--connector',
    'wiki',
    '--json',
  );
  const printed = [await world.cli(...list), await world.cli(...list, '--json'), tried];
  for (const { stdout, stderr } of printed) expect(stdout + stderr).not.toContain(clear);
  const other = await world.cli(...list, '--param', `start_cursor=${token.slice(0, -8)}AAAAAAA=`);
  expect(other).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('begin with the first page') as string,
  });
});
