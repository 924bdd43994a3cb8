import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import { noCounts, type PageCounts } from '../../src/core/records.ts';
import type { PreparedPage } from '../../src/engine/prepare/prepare-page.ts';
import { runTally } from '../../src/engine/run-tally.ts';
import type { Partition } from '../../src/sinks/partition.ts';

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
  mode: 'full',
  storedRows: 0,
  clockDifferences: [],
  watermark: null,
};
const page: PreparedPage = {
  stored: {
    filtered: 0,
    foreign: 0,
    refused: [],
    children: [],
    rows: [{ entity: users, records: [] }],
    drift: [],
  },
  marks: [],
  keys: [],
  changes: [],
  undated: 0,
  differenceMs: null,
  isSorted: true,
  extraFields: new Map(),
  explodedFetched: 0,
  depthLimited: 0,
  partial: 0,
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

  // Proves promise 5
  it('refuses an account in which records are missing, in the engine or the sink', () => {
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

  it('counts what a get brought as read, and refuses an account in which it is missing', () => {
    const tally = runTally([users]);
    tally.confirmed(users, 2, { ...noCounts, fetched: 2, updated: 1, unchanged: 1 });
    expect(() => tally.check()).not.toThrow();
    tally.confirmed(users, 1, noCounts);
    expect(() => tally.check()).toThrow(/3 records were received/);
  });

  it('is degraded by a walk that missed an existing record, not by withheld or pending rows', () => {
    const tally = runTally([users]);
    const missing = {
      withheld: 300,
      pending: 2,
      toConfirm: 0,
      withheldBecause: 'share',
      withholding: null,
    } as const;
    tally.missing(new Map([[users, missing]]));
    tally.deleted(users, 4);
    expect(tally.isDegraded()).toBe(false);
    expect(tally.entities()).toMatchObject([{ withheld: 300, pending: 2, deleted: 4, isWhole: true }]);
    tally.withdrawn(users);
    expect(tally.isDegraded()).toBe(true);
    expect(tally.entities()).toMatchObject([{ withdrawn: 1, isWhole: false }]);
  });

  it('no longer counts a partition as set aside when its parent turns out to be deleted', () => {
    const tally = runTally([users]);
    const failure = {
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
      at: '',
      dropPosition: false,
      dropWatermark: false,
    } as const;
    for (const id of [1, 2]) tally.setAside({ ...partition, id }, failure);
    tally.endedBelow([{ id: 1, entity: users }]);
    expect(tally.failures().reported).toHaveLength(1);
    expect(tally.isDegraded()).toBe(true);
    tally.endedBelow([{ id: 2, entity: users }]);
    expect(tally.failures()).toEqual({ reported: [], omitted: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('tells walks that read from a watermark from those that read from the start', () => {
    const tally = runTally([users]);
    const proof = { kind: 'keyset', isOrdered: true } as const;
    tally.sealed(partition, { proof: { kind: 'seam', isOrdered: true } });
    tally.sealed({ ...partition, mode: 'incremental' }, { proof });
    expect(tally.entities()).toMatchObject([{ incremental: 1, proofs: { seam: 1, keyset: 1 } }]);
    expect(tally.nothingRead()).toBe(false);
  });

  it('reports a hundred failures and counts the rest', () => {
    const tally = runTally([users]);
    const failure = {
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
      at: '',
      dropPosition: false,
      dropWatermark: false,
    } as const;
    for (let id = 0; id < 130; id += 1) tally.setAside({ ...partition, id }, failure);
    expect(tally.failures().reported).toHaveLength(100);
    expect(tally.failures().omitted).toBe(30);
    expect(tally.nothingRead()).toBe(true);
  });
});
