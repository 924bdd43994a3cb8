import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import { noCounts, type PageCounts } from '../../src/core/records.ts';
import type { PreparedPage } from '../../src/engine/prepare/prepare-page.ts';
import { runTally } from '../../src/engine/run-tally.ts';
import type { Partition } from '../../src/sinks/sink.ts';

const users = 'users' as EntityName;
const partition: Partition = {
  id: 1,
  entity: users,
  params: {},
  inject: {},
  rank: 0,
  treeDepth: null,
  tree: null,
  position: null,
};
const page: PreparedPage = {
  filtered: 0,
  foreign: 0,
  refused: [],
  children: [],
  rows: [{ entity: users, records: [] }],
  marks: [],
  extraFields: new Map(),
  explodedFetched: 0,
  depthLimited: 0,
};

function tallied(fetched: number, counts: Partial<PageCounts>) {
  const tally = runTally([users]);
  tally.pageCommitted(partition, page, fetched, {
    counts: [{ entity: users, counts: { ...noCounts, ...counts } }],
    newlyDue: 0,
  });
  return tally;
}

describe("a run's account", () => {
  it('accepts an account in which every record is named once', () => {
    expect(() => tallied(3, { fetched: 3, inserted: 1, unchanged: 1, quarantined: 1 }).check()).not.toThrow();
  });

  it('refuses an account in which records are missing, whoever lost them', () => {
    expect(() => tallied(3, { fetched: 2, inserted: 2 }).check()).toThrow(/3 records were received/);
    expect(() => tallied(3, { fetched: 3, inserted: 2 }).check()).toThrow(/do not add up/);
  });

  it('fails an entity with more than one record in a hundred in quarantine', () => {
    const bad = tallied(100, { fetched: 100, inserted: 98, quarantined: 2 });
    expect(bad.isDegraded()).toBe(true);
    expect(bad.failures().reported).toMatchObject([{ entity: 'users', code: 'QUARANTINE_LIMIT' }]);
    const fair = tallied(100, { fetched: 100, inserted: 99, quarantined: 1 });
    expect({ degraded: fair.isDegraded(), failures: fair.failures().reported }).toEqual({
      degraded: false,
      failures: [],
    });
  });

  it('reports a hundred failures and counts the rest', () => {
    const tally = runTally([users]);
    const failure = {
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
      at: '',
      dropPosition: false,
    } as const;
    for (let index = 0; index < 130; index += 1) tally.setAside(partition, failure);
    expect(tally.failures().reported).toHaveLength(100);
    expect(tally.failures().omitted).toBe(30);
    expect(tally.nothingRead()).toBe(true);
  });
});
