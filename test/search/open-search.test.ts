import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { openSearch } from '../../src/search/open-search.ts';
import { Bench, news, record } from '../contracts/sink/fixture.ts';
import { sqlite } from '../support/search/index-world.ts';
import { listMembers, sinkOfMembers } from '../support/search/process-world.ts';

describe('a search during a sync', () => {
  let bench: Bench;
  let file: string;

  beforeEach(async () => {
    bench = new Bench(sqlite);
    const values = { list_id: 'a', id: '1' };
    const member = record(listMembers.table, values, { extra: '{"nick":"The Countess"}' });
    file = await sinkOfMembers(bench, [member], { isIndexed: true });
  });

  afterEach(async () => {
    await bench.close();
  });

  it('finds a value that moves into a new column meanwhile', async () => {
    let isMoved = false;
    const entity: Entity = {
      ...listMembers,
      // Read once the search knows the columns, and before it looks at records.
      get searchable(): Entity['searchable'] {
        if (!isMoved) moveIntoColumn(file);
        isMoved = true;
        return new Map([['nick', { type: 'string', from: ['nick'], shape: 'asIs' }]]);
      },
    };
    await using open = openSearch(file);
    const { signal } = new AbortController();
    for (const filter of [{}, { eq: { nick: 'The Countess' } }, { keyword: { nick: 'countess' } }]) {
      const options = {
        cursorKey: Buffer.alloc(32),
        scope: 's',
        clock: systemClock,
        deadlineMs: 5_000,
        signal,
      };
      const { data } = await open.search({ connector: news, entity }, { query: { filter } }, options);
      expect(data).toEqual([{ nick: 'The Countess' }]);
    }
    expect(isMoved).toBe(true);
  });
});

/** As a sync leaves it that adds a column for a field that no definition declares. */
function moveIntoColumn(file: string): void {
  const db = new Database(file);
  const table = 'news__list_members';
  const withNick = `json_insert(stored, '$[#]', json('{"name":"nick","type":"string"}'))`;
  db.transaction(() => {
    db.exec(`ALTER TABLE ${table} ADD COLUMN nick TEXT`);
    db.exec(`UPDATE ${table} SET nick = _extra ->> 'nick', _extra = NULL, _run_id = 'run-2', _seq = 2`);
    db.exec(`UPDATE _sync_tables SET stored = ${withNick} WHERE entity = 'list_members'`);
    db.exec('UPDATE _sync_meta SET seq = 2');
  }).immediate();
  db.close();
}
