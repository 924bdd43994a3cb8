import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { instant, systemClock } from '../../src/core/clock.ts';
import type { RunId } from '../../src/core/names.ts';
import type { Column } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { openSearch } from '../../src/search/open-search.ts';
import { openDatabase } from '../../src/sinks/file-ledger/open-database.ts';
import { withAdded } from '../../src/sinks/decisions/stored-table.ts';
import { prepareTables } from '../../src/sinks/file-ledger/tables.ts';
import { widenTable } from '../../src/sinks/sqlite/ensure-table.ts';
import { Bench, news, record } from '../contracts/sink/fixture.ts';
import { sqlite } from '../support/search/index-world.ts';
import { listMembers, sinkOfMembers } from '../support/search/process-world.ts';

const nick: Column = { name: 'nick', type: 'string', isEvolved: true };

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

  it('finds a value that moves into a new column meanwhile', () => {
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
    using open = openSearch(file);
    for (const filter of [{}, { eq: { nick: 'The Countess' } }, { keyword: { nick: 'countess' } }]) {
      const options = { cursorKey: Buffer.alloc(32), scope: 's', clock: systemClock, deadlineMs: 5_000 };
      const { data } = open.search({ connector: news, entity }, { query: { filter } }, options);
      expect(data).toEqual([{ nick: 'The Countess' }]);
    }
    expect(open.stored(news, listMembers.name)?.columns).toContainEqual({ name: 'nick', type: 'string' });
  });
});

/** As a sync does it that adds a column for a field that no definition declares. */
function moveIntoColumn(file: string): void {
  const now = instant(0);
  const db = openDatabase({ file, kind: 'sqlite', durability: 'normal', now });
  const stamp = { run: 'run-2' as RunId, now, nextSeq: () => 2 };
  const { table } = listMembers;
  db.transaction(() => {
    widenTable(db, { connector: news, epoch: 1, table, stored: table.columns, filled: [nick], stamp }, [
      nick,
    ]);
    const tables = prepareTables(db);
    const before = tables.known(news, table.entity);
    if (before !== undefined) tables.save(news, table.entity, withAdded(before, [nick]));
  }).immediate();
  db.close();
}
