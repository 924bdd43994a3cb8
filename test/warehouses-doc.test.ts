import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { openCliWorld } from './support/cli-world.ts';

const document = readFileSync('docs/guides/warehouses.md', 'utf8');
describe('docs/guides/warehouses.md', () => {
  it('asks a SQLite sink for what it has, and names what export says', async () => {
    await using world = await openCliWorld({ settings: '    include: [lists, list_members]\n' });
    await world.json('sync', 'newsletter');
    const [, sql = ''] = /## Straight from SQLite\n[^]*?```sql\n([^]*?)```/.exec(document) ?? [];
    const statements = sql.split('\n').filter((line) => line.startsWith('SELECT'));
    expect(statements).toHaveLength(4);
    const db = new Database(join(world.folder, 'main.db'), { readonly: true });
    for (const statement of statements) expect(() => db.prepare(statement).all()).not.toThrow();
    db.close();
    const { stderr } = await world.cli('export', 'newsletter/lists', '--json');
    const end = JSON.parse(stderr) as Record<string, unknown>;
    const [, table = ''] = /\n(\| member[^]*?)\n\n/.exec(document) ?? [];
    const named = [...table.matchAll(/`(\w+)`/g)]
      .map(([, name = '']) => name)
      .filter((name) => name !== 'null' && name !== 'ok');
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !(name in end))).toEqual([]);
  });
});
