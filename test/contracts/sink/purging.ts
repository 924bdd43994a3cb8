import { expect, it } from 'vitest';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { PurgeRequest } from '../../../src/sinks/purges.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  counts,
  identity,
  lists,
  listsTable,
  liveIds,
  member,
  members,
  membersTable,
  news,
  partition,
  record,
  rootOf,
  type SinkKind,
} from './fixture.ts';
import { param, RunInHand, useRuns, type Shown } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

const tables = [listsTable, membersTable];
const plan = { tables, entities: [lists, members], roots: [rootOf(lists)] };

/** Random enough to be found nowhere else. */
const canary = 'canary-7f1e4b9a';

const showing =
  (ids: readonly string[]) =>
  (shown: Pick<Partition, 'entity' | 'params'>): Shown =>
    shown.entity === lists
      ? {
          records: ids.map((id) => record(listsTable, { id })),
          children: ids.map((id) =>
            partition(members, { list_id: id }, { rank: 1, parent: { entity: lists, keyText: `["${id}"]` } }),
          ),
        }
      : {
          records: ['1', '2'].map((id) =>
            record(membersTable, {
              list_id: param(shown, 'list_id'),
              id,
              name: `of ${param(shown, 'list_id')}`,
            }),
          ),
        };

export function purging(kind: SinkKind): void {
  const bench = useBench(kind);
  const asked = (change: Partial<PurgeRequest>): PurgeRequest => ({
    of: [{ entity: lists, keyTexts: [`["${canary}"]`] }],
    canReturn: false,
    targets: [],
    removeFile: () => Promise.reject(new Error('There is no file')),
    signal: AbortSignal.timeout(60_000),
    ...change,
  });

  /** Two lists with their members, one of which is the canary; no process holds the connector. */
  async function filled(): Promise<Sink> {
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(['a', canary]))).finish();
    await lease[Symbol.asyncDispose]();
    return sink;
  }

  async function run(sink: Sink, name: string, shown: ReturnType<typeof showing>): Promise<RunInHand> {
    await using lease = await sink.acquire(identity());
    const hand = await RunInHand.begin(bench(), { sink, lease }, name, { ...plan, isFull: true });
    await hand.walk(shown);
    await hand.sweep();
    expect(await hand.missing(lists)).toBeUndefined();
    expect(await hand.missing(members)).toBeUndefined();
    await hand.finish();
    return hand;
  }

  const contents = async (): Promise<string> => {
    const { folder } = bench();
    const changes = tables.map(async (table) => JSON.stringify(await kind.readChanges(folder, news, table)));
    return [...(await kind.contents(folder, [])), ...(await Promise.all(changes))].join('\n');
  };

  // Proves promise 21.3
  it('removes a record with the records below it, and keeps it away while the API lists it', async () => {
    const sink = await filled();
    expect(await contents()).toContain(canary);
    const look = await sink.purges.look(news, asked({}).of);
    expect(look.map(({ entity, rows, listings }) => [entity, rows, listings])).toEqual([
      [lists, 1, 0],
      [members, 2, 1],
    ]);
    expect(await contents()).toContain(canary);
    const { entities, records, left } = await sink.purges.purge(news, asked({}));
    expect(entities).toEqual(look);
    expect(records).toBe(3);
    expect(left).toEqual([]);
    expect(await contents()).not.toContain(canary);
    for (const name of ['r2', 'r3', 'r4', 'r5', 'r6']) await run(sink, name, showing(['a', canary]));
    expect(await contents()).not.toContain(canary);
    expect(liveIds(await kind.readRows(bench().folder, news, listsTable))).toEqual(['a']);
    const [status] = await sink.history.connectors();
    expect(status?.entities.map(({ entity, rows, deleted }) => [entity, rows, deleted])).toEqual([
      [lists, 1, 0],
      [members, 2, 0],
    ]);
    const [last] = await bench().ledger(
      `SELECT fetched, filtered, unchanged FROM _sync_counts WHERE run = 'r6' AND entity = 'lists'`,
    );
    expect(last).toEqual({ fetched: 2, filtered: 1, unchanged: 1 });
  });

  it.skipIf(kind.options('/nowhere').type === 'jsonl')('removes earlier versions of the record', async () => {
    const kept = { ...plan, versions: new Set([members]) };
    const { sink, lease, sweep } = await useRuns(bench(), kept);
    const named =
      (name: string) =>
      (shown: Pick<Partition, 'entity' | 'params'>): Shown =>
        shown.entity === lists ? showing(['a'])(shown) : { records: [member('1', name), member('2')] };
    for (const [run, name] of [
      ['r1', 'Ada'],
      ['r2', canary],
      ['r3', 'Eve'],
    ] as const) {
      await (await sweep(run, named(name), { isFull: true })).finish();
    }
    await lease[Symbol.asyncDispose]();
    expect(await contents()).toContain(canary);
    await sink.purges.purge(news, asked({ of: [{ entity: members, keyTexts: ['["a","1"]'] }] }));
    expect(await contents()).not.toContain(canary);
  });

  it('removes several entities at once, with one action for each, and looks at each row once', async () => {
    const sink = await filled();
    const of = [
      ...asked({}).of,
      { entity: members, keyTexts: [`["${canary}","1"]`, '["a","1"]', '["never","stored"]'] },
    ];
    const look = await sink.purges.look(news, of);
    expect(look.map(({ entity, rows }) => [entity, rows])).toEqual([
      [lists, 1],
      [members, 3],
    ]);
    const { entities, records } = await sink.purges.purge(news, asked({ of }));
    expect(entities).toEqual(look);
    expect(records).toBe(5);
    expect(await contents()).not.toContain(canary);
    expect(await sink.history.actions({ connector: news, limit: 2 })).toMatchObject([
      { action: 'purge', entity: members, detail: { records: 3, rows: 1 } },
      { action: 'purge', entity: lists, detail: { records: 3, rows: 3 } },
    ]);
    await run(sink, 'r2', showing(['a', canary]));
    expect(liveIds(await kind.readRows(bench().folder, news, membersTable))).toEqual(['2']);
  });

  it('begins a listing again whose position may name the record', async () => {
    const sink = await filled();
    const lease = await sink.acquire(identity());
    const hand = await RunInHand.begin(bench(), { sink, lease }, 'r2', { ...plan, isFull: true });
    const [root] = await sink.nextPartitions(lease, 1);
    await sink.commit(lease, [
      {
        walk: { run: hand.started.run, partition: root?.id ?? 0 },
        fetched: 1,
        filtered: 0,
        foreign: 0,
        refused: [],
        children: [],
        position: { kind: 'test', after: canary },
        rows: [{ entity: lists, records: [record(listsTable, { id: 'a' })] }],
        seal: null,
        drift: [],
      },
    ]);
    await lease[Symbol.asyncDispose]();
    await sink.purges.purge(news, asked({}));
    expect(await contents()).not.toContain(canary);
    await run(sink, 'r3', showing(['a', canary]));
    expect(liveIds(await kind.readRows(bench().folder, news, listsTable))).toEqual(['a']);
  });

  it('notes by whom and when, by a hash of the key', async () => {
    const sink = await filled();
    const { at, who } = await sink.purges.purge(news, asked({}));
    const notes = await sink.history.purged(news);
    expect(notes?.noteOf(lists, `["${canary}"]`)).toEqual({ at, who, canReturn: false });
    expect(notes?.noteOf(lists, '["a"]')).toBeNull();
    expect(await sink.history.actions({ connector: news, limit: 1 })).toMatchObject([
      { action: 'purge', who, entity: lists, detail: { records: 3, rows: 3 } },
    ]);
  });

  // Proves promise 21.1
  it('removes failed listings that reports of runs name by a key', async () => {
    const sink = await filled();
    const failed = { code: 'FORBIDDEN', recovery: 'stop', message: 'no answer' } as const;
    const ofLists = { ...failed, entity: lists, params: {} };
    const ofMembers = { ...failed, entity: members, params: { list_id: canary } };
    {
      await using lease = await sink.acquire(identity());
      const hand = await RunInHand.begin(bench(), { sink, lease }, 'r2', plan);
      await hand.walk(showing(['a', canary]));
      await hand.finish('degraded', { failures: [ofLists, ofMembers] });
    }
    expect(await bench().ledger("SELECT report FROM _sync_runs WHERE run = 'r2'")).toEqual([
      { report: expect.stringContaining(canary) as string },
    ]);
    await sink.purges.purge(news, asked({}));
    expect(await contents()).not.toContain(canary);
    const [last] = await sink.history.runs({ connector: news, kind: 'sync', limit: 1 });
    expect(last?.report).toMatchObject({ failures: [ofLists], failuresOmitted: 1 });
  });

  it('lets a record return where a person allows it, and stores it as a new one', async () => {
    const sink = await filled();
    await sink.purges.purge(news, asked({}));
    await sink.purges.purge(news, asked({ canReturn: true }));
    await run(sink, 'r2', showing(['a', canary]));
    expect(liveIds(await kind.readRows(bench().folder, news, listsTable))).toEqual(['a', canary]);
    expect(await kind.readRows(bench().folder, news, membersTable)).toHaveLength(4);
    await sink.purges.purge(news, asked({}));
    expect(await contents()).not.toContain(canary);
  });

  it('keeps records below others away that come by another listing', async () => {
    const sink = await filled();
    await sink.purges.purge(news, asked({ of: [{ entity: members, keyTexts: ['["a","1"]'] }] }));
    await run(sink, 'r2', showing(['a', canary]));
    const rows = await kind.readRows(bench().folder, news, membersTable);
    expect(rows.map((row) => JSON.stringify([row['list_id'], row['id']])).toSorted()).toEqual([
      '["a","2"]',
      `["${canary}","1"]`,
      `["${canary}","2"]`,
    ]);
  });

  it('refuses to store a purged record outside a sync', async () => {
    const sink = await filled();
    await sink.purges.purge(news, asked({ of: [{ entity: members, keyTexts: ['["a","1"]'] }] }));
    await using lease = await sink.acquire(identity());
    const kinds = { kind: 'refetch', window: 'refetch', entities: [], roots: [] } as const;
    const { started } = await RunInHand.begin(bench(), { sink, lease }, 'f1', { tables, ...kinds });
    await expect(sink.repair.storeRecord(lease, started.run, members, member('1'))).rejects.toMatchObject({
      code: 'USAGE',
    });
    expect(await sink.repair.storeRecord(lease, started.run, members, member('9'))).toEqual(
      counts({ fetched: 1, inserted: 1 }),
    );
  });

  /** A run that refuses these records of lists. */
  async function refuse(sink: Sink, name: string, records: readonly (readonly [string, string?])[]) {
    await using lease = await sink.acquire(identity());
    const hand = await RunInHand.begin(bench(), { sink, lease }, name, plan);
    const [root] = await sink.nextPartitions(lease, 1);
    const [committed] = await sink.commit(lease, [
      {
        walk: { run: hand.started.run, partition: root?.id ?? 0 },
        fetched: records.length,
        filtered: 0,
        foreign: 0,
        refused: records.map(([record, keyText]) => ({
          entity: lists,
          reason: 'schema-change',
          detail: 'it has a new field',
          record,
          ...(keyText === undefined ? {} : { keyText }),
        })),
        children: [],
        position: { kind: 'test' },
        rows: [{ entity: lists, records: [] }],
        seal: null,
        drift: [],
      },
    ]);
    for (const { entity, counts: of } of committed?.counts ?? []) hand.count(entity, of);
    await hand.finish('degraded');
    return committed?.counts;
  }

  it('removes what is in quarantine of it, and lets nothing of it in again', async () => {
    const sink = await filled();
    const record = [`{"id":"${canary}","new":1}`, `["${canary}"]`] as const;
    expect(await refuse(sink, 'r2', [record])).toEqual([
      { entity: lists, counts: counts({ fetched: 1, quarantined: 1 }) },
    ]);
    const { entities } = await sink.purges.purge(news, asked({}));
    expect(entities.find(({ entity }) => entity === lists)?.quarantined).toBe(1);
    expect(await refuse(sink, 'r3', [record])).toEqual([
      { entity: lists, counts: counts({ fetched: 1, filtered: 1 }) },
    ]);
    expect(await contents()).not.toContain(canary);
  });

  it('removes records without a key that are meant in quarantine, and lets none of them in again', async () => {
    const sink = await filled();
    const keyless = [
      [`{"name":"${canary}"}`],
      [`{"id":{"a":1},"name":"${canary}"}`],
      [`"${canary}"`],
      ['{"name":"other"}'],
    ] as const;
    await refuse(sink, 'r2', keyless);
    const of = [{ entity: lists, keyTexts: [], isRefusedMeant: (text: string) => text.includes(canary) }];
    expect(await sink.purges.look(news, of)).toMatchObject([{ entity: lists, rows: 0, quarantined: 3 }]);
    const { entities, records } = await sink.purges.purge(news, asked({ of }));
    expect(entities).toMatchObject([{ entity: lists, rows: 0, quarantined: 3 }]);
    expect(records).toBe(3);
    expect(await refuse(sink, 'r3', keyless)).toEqual([
      { entity: lists, counts: counts({ fetched: 4, filtered: 3, quarantined: 1 }) },
    ]);
    await sink.purges.purge(news, asked({ of, canReturn: true }));
    expect(JSON.stringify(await sink.history.quarantine(news, 10))).not.toContain(canary);
  });

  it('takes a key that is an object for that record alone', async () => {
    const sink = await filled();
    await refuse(sink, 'r2', [['{"id":{"a":1}}'], ['{"id":{"a":2}}'], ['{"id":[1]}']]);
    const quarantined = async (key: string): Promise<number> => {
      const of = [{ entity: lists, keyTexts: [JSON.stringify([key])] }];
      const [found] = await sink.purges.look(news, of);
      return found?.quarantined ?? 0;
    };
    expect(await quarantined('[object Object]')).toBe(0);
    expect(await quarantined('1')).toBe(0);
    expect(await quarantined('{ "a": 1 }')).toBe(1);
    expect(await quarantined('[1]')).toBe(1);
    const { entities } = await sink.purges.purge(
      news,
      asked({ of: [{ entity: lists, keyTexts: [JSON.stringify(['{"a":1}'])] }] }),
    );
    expect(entities).toMatchObject([{ quarantined: 1 }]);
    expect(await refuse(sink, 'r3', [['{"id":{"a":1}}']])).toEqual([
      { entity: lists, counts: counts({ fetched: 1, filtered: 1 }) },
    ]);
  });
}
