import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { openCliWorld } from './support/cli-world.ts';

const queries = [...readFileSync('docs/guides/queries.md', 'utf8').matchAll(/```sql\n([^]*?)```/g)];

it('docs/guides/queries.md has ten queries that run on what a sync has stored', async () => {
  expect(queries).toHaveLength(10);
  await using world = await openCliWorld({ isWhole: true });
  await world.json('sync');
  const db = new Database(join(world.folder, 'main.db'), { readonly: true });
  const empty = queries.flatMap(([, sql = '']) => (db.prepare(sql).all().length === 0 ? [sql] : []));
  db.close();
  // So small an account has neither undeclared values nor records that were deleted or quarantined.
  const absent = ['_deleted_at IS NOT NULL\n', 'json_each(_extra)', '_sync_quarantine'];
  expect(empty.filter((sql) => !absent.some((text) => sql.includes(text)))).toEqual([]);
});
