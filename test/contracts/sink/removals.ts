import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { PurgeRequest, ExpireRequest, Retention, ResetScope } from '../../../src/sinks/requests.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
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
  refetch,
  resetScope,
  purgeRequest,
  expireRequest,
  rootOf,
  type SinkKind,
  dayMs,
  opens,
  opensTable,
  page,
  sealed,
  type StoredEntity,
} from './fixture.ts';
import { param, RunInHand, useRuns, type Held, type Shown } from './run-in-hand.ts';
import { useBench, rulesOf } from './use-bench.ts';

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
  const it = rulesOf(kind);
  const asked = (change: Partial<PurgeRequest>): PurgeRequest =>
    purgeRequest([{ entity: lists, keyTexts: [`["${canary}"]`] }], change);

  /** Two lists with their members, one of which is the canary; no process holds the connector. */
  async function filled(): Promise<Sink> {
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(['a', canary]))).finish();
    await lease[Symbol.asyncDispose]();
    return sink;
  }

  async function run(sink: Sink, name: string, shown: ReturnType<typeof showing>): Promise<RunInHand> {
    const { sweep, lease } = await useRuns(bench(), { ...plan, isFull: true }, { sink });
    const hand = await sweep(name, shown);
    expect([await hand.missing(lists), await hand.missing(members)]).toEqual([undefined, undefined]);
    await hand.finish();
    await lease[Symbol.asyncDispose]();
    return hand;
  }

  const contents = async (): Promise<string> => {
    const { folder } = bench();
    const changes = tables.map(async (table) => JSON.stringify(await kind.readChanges(folder, news, table)));
    return [...(await kind.contents(folder, [])), ...(await Promise.all(changes))].join('\n');
  };

  // Proves promise 21.3
  everywhere(
    'removes a record with the records below it, and keeps it away while the API lists it',
    async () => {
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
    },
  );

  // A JSONL sink keeps no versions.
  everywhere.skipIf(kind.options('/nowhere').type === 'jsonl')(
    'removes earlier versions of the record',
    async () => {
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
    },
  );

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
    const position = { kind: 'test', after: canary };
    await sink.commit(lease, [
      page(hand.started, root?.id ?? 0, [record(listsTable, { id: 'a' })], { entity: lists, position }),
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
      const { sweep, lease } = await useRuns(bench(), plan, { sink });
      await (
        await sweep('r2', showing(['a', canary]))
      ).finish('degraded', { failures: [ofLists, ofMembers] });
      await lease[Symbol.asyncDispose]();
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
    const { started } = await RunInHand.begin(bench(), { sink, lease }, 'f1', { tables, ...refetch });
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
    const refused = records.map(([record, keyText]) => ({
      entity: lists,
      reason: 'schema-change' as const,
      detail: 'it has a new field',
      record,
      ...(keyText === undefined ? {} : { keyText }),
    }));
    const [committed] = await sink.commit(lease, [
      page(hand.started, root?.id ?? 0, [], { entity: lists, fetched: records.length, refused }),
    ]);
    for (const { entity, counts: of } of committed?.counts ?? []) hand.count(entity, of);
    await hand.finish('degraded');
    return committed?.counts;
  }

  everywhere('removes what is in quarantine of it, and lets nothing of it in again', async () => {
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

  everywhere('takes a key that is an object for that record alone', async () => {
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

const listsAlone = { tables: [listsTable], entities: [lists], roots: [rootOf(lists)] };
const showingLists =
  (ids: readonly string[]) =>
  (_partition: Pick<Partition, 'entity'>): Shown => ({
    records: ids.map((id) => record(listsTable, { id })),
  });

export function expiring(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const before = (days: number): string => instant(bench().clock.now() - days * dayMs);
  const asked = (change: Partial<Retention> = {}): ExpireRequest =>
    expireRequest(lists, { deletedBefore: before(90), quarantinedBefore: before(30), ...change });
  const none = [{ entity: lists, rows: 0, quarantined: 0, files: 0, versions: 0 }];
  const ids = async (): Promise<readonly string[]> =>
    (await kind.readRows(bench().folder, news, listsTable)).map(({ id }) => JSON.stringify(id)).toSorted();

  /** Lists `b` and `c` were deleted in run r2. */
  async function deleted() {
    const runs = await useRuns(bench(), listsAlone);
    await (await runs.sweep('r1', showingLists(['a', 'b', 'c']))).finish();
    const hand = await runs.sweep('r2', showingLists(['a']));
    await hand.tombstone([lists]);
    await hand.finish();
    await runs.lease[Symbol.asyncDispose]();
    return runs.sink;
  }

  // Proves promise 21.5
  everywhere(
    'removes deleted rows once they are old, and says from where on changes are complete',
    async () => {
      const sink = await deleted();
      expect(await sink.purges.expire(news, asked())).toEqual(none);
      bench().clock.advance(91 * dayMs);
      expect(await sink.purges.expired(news, asked())).toEqual([
        { ...none[0], rows: 2, of: { rows: 3, files: 0, versions: 3 } },
      ]);
      expect(await sink.purges.expire(news, asked())).toEqual([{ ...none[0], rows: 2 }]);
      expect(await ids()).toEqual(['"a"']);
      const [status] = await sink.history.connectors();
      expect(status?.entities).toMatchObject([{ entity: lists, rows: 1, deleted: 0 }]);
      // Three rows were stored, then two deletes.
      expect(await sink.history.completeAfter(news, lists)).toBe(5);
      expect(await sink.purges.expire(news, asked())).toEqual(none);
    },
  );

  // Proves promise 21.5
  it('keeps a deleted row that some target has not published', async () => {
    const sink = await deleted();
    bench().clock.advance(91 * dayMs);
    expect(await sink.purges.expire(news, asked({ publishedThrough: 4 }))).toEqual([{ ...none[0], rows: 1 }]);
    expect(await sink.history.completeAfter(news, lists)).toBe(4);
    expect(await sink.purges.expire(news, asked({ publishedThrough: 0 }))).toEqual(none);
  });

  it('looks once a day by itself', async () => {
    const sink = await deleted();
    const itself = { ...asked(), isAsked: false };
    await sink.purges.expire(news, asked());
    expect(await sink.purges.expired(news, itself)).toEqual([]);
    bench().clock.advance(2 * dayMs);
    expect(await sink.purges.expired(news, itself)).toMatchObject(none);
  });
}

const other = 'mail' as ConnectorName;
const allTables = [listsTable, membersTable, opensTable];
const planOfAll: Partial<RunPlan> = { tables: allTables, entities: [lists, members], roots: [rootOf(lists)] };

const showingOpens =
  (ids: readonly string[]) =>
  ({ entity }: Pick<Partition, 'entity'>): Shown =>
    entity === lists
      ? {
          records: [record(listsTable, { id: 'a' })],
          children: [
            partition(members, { list_id: 'a' }, { rank: 1, parent: { entity: lists, keyText: '["a"]' } }),
          ],
        }
      : { records: ids.map((id) => member(id)) };

export function resetting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const scope = (change: Partial<ResetScope>): ResetScope =>
    resetScope({ withData: false, now: instant(bench().clock.now()), ...change });
  const ofMembers = { entity: members, tables: [membersTable, opensTable] };
  const theirs = [members, opens].map((entity) => ({ connector: news, entity }));
  /** Without the notes that the reset makes of itself, and without the key of hashes, which it replaces. */
  const contents = async (without: readonly StoredEntity[]): Promise<readonly string[]> =>
    (await kind.contents(bench().folder, without))
      .filter((line) => !/^(_sync_actions: |_sync_commits: |sqlite_sequence: name=_sync_actions)/.test(line))
      .map((line) => line.replace(/\braw_key=[0-9a-f]{64}/, ''));

  /** A run that meets these members; it has not ended. */
  const again = async (on: Partial<Held>, run: string, ids: readonly string[]): Promise<RunInHand> =>
    await (await useRuns(bench(), planOfAll, on)).sweep(run, showingOpens(ids));

  /**
   * Two connectors with rows, shared rows, missing rows, windows, a refused record and an unfinished run; no process
   * holds the first.
   */
  async function filled(): Promise<RunInHand['sink']> {
    const { sink, lease, sweep, begin } = await useRuns(bench(), planOfAll);
    const first = await begin('r1');
    await first.walk(showingOpens(['1', '2', '3']));
    await first.sweep();
    await first.finish();
    await (await sweep('r2', showingOpens(['1', '2']))).finish('degraded');
    const half = await begin('r3');
    const [root] = await sink.nextPartitions(lease, 1);
    const refused = [{ entity: members, reason: 'key-missing', detail: 'no id', record: '{"x":1}' }] as const;
    const rows = [
      { entity: lists, records: [record(listsTable, { id: 'a' })] },
      { entity: opens, records: [record(opensTable, { id: '1', at: '10:00' })] },
    ];
    await sink.commit(lease, [
      page(half.started, root?.id ?? 0, [], {
        entity: lists,
        rows,
        fetched: 1,
        seal: sealed,
        children: showingOpens([])({ entity: lists }).children ?? [],
        refused,
      }),
    ]);
    await lease[Symbol.asyncDispose]();
    const mail = await again({ sink, lease: await sink.acquire(identity({ connector: other })) }, 'm1', [
      '1',
    ]);
    await mail.finish();
    await mail.lease[Symbol.asyncDispose]();
    const params = 'params, params_hash';
    const same = 'inject, rank, 99, found_at, 0, 0 FROM _sync_partitions';
    await bench().ledger(
      `INSERT INTO _sync_partitions (connector, entity, ${params}, backfill, inject, rank, origin, found_at, ready, listed)
       SELECT connector, entity, ${params}, 'a window', ${same}`,
    );
    return sink;
  }

  async function changed(work: () => Promise<unknown>, without: readonly StoredEntity[]) {
    const before = await contents(without);
    await work();
    return { before, after: await contents(without) };
  }

  // Proves promise 13
  it('reads an entity again from the start, keeps its records, and changes nothing else', async () => {
    const sink = await filled();
    const rows = await bench().rows();
    const { before, after } = await changed(
      async () => expect(await sink.repair.reset(news, scope(ofMembers))).toEqual({ partitions: 1, rows: 0 }),
      theirs,
    );
    expect(after).toEqual(before);
    expect(await bench().rows()).toEqual(rows);
    expect(
      await bench().ledger(
        `SELECT position, watermark, marker, full_at, sealed_at, sweep_origin, mode, ready, gone, due_since
         FROM _sync_partitions WHERE connector = 'news' AND entity = 'members'`,
      ),
    ).toEqual([
      {
        position: null,
        watermark: null,
        marker: null,
        full_at: null,
        sealed_at: null,
        sweep_origin: null,
        mode: 'full',
        ready: 1,
        gone: 0,
        due_since: instant(bench().clock.now()),
      },
    ]);
    expect(await bench().ledger('SELECT row FROM _sync_missing WHERE missed > 0')).toEqual([]);
    const next = await again({ sink }, 'r4', ['1', '2', '3']);
    expect(await next.missing(members)).toBeUndefined();
  });

  // Proves promise 13
  everywhere(
    'drops the records of an entity too, with what they were exploded into, and changes nothing else',
    async () => {
      const sink = await filled();
      const { before, after } = await changed(
        async () =>
          expect(await sink.repair.reset(news, scope({ ...ofMembers, withData: true }))).toEqual({
            partitions: 1,
            rows: 4,
          }),
        theirs,
      );
      expect(after).toEqual(before);
      for (const table of [
        '_sync_tables',
        '_sync_missing',
        '_sync_seen',
        '_sync_also',
        '_sync_quarantine',
        '_sync_downloads',
      ]) {
        expect(
          await bench().ledger(
            `SELECT * FROM ${table} WHERE connector = 'news' AND entity IN ('members', 'member_opens')`,
          ),
          table,
        ).toEqual([]);
      }
      const next = await again({ sink }, 'r4', ['1', '7']);
      expect(await next.tombstone([lists, members])).toEqual({ lists: 0, members: 0 });
      await next.finish();
      expect((await bench().rows()).map(({ id }) => id)).toEqual(['1', '7']);
      expect(
        (await sink.history.connectors()).find(({ connector }) => connector === news)?.entities,
      ).toMatchObject([
        { entity: lists, rows: 1 },
        { entity: opens, rows: 0 },
        { entity: members, rows: 2, deleted: 0, missing: 0 },
      ]);
    },
  );

  it('reads all of a connector again, and resumes no run', async () => {
    const sink = await filled();
    const rows = await bench().rows();
    const ours = [lists, members, opens].map((entity) => ({ connector: news, entity }));
    const { before, after } = await changed(
      async () => expect(await sink.repair.reset(news, scope({}))).toEqual({ partitions: 2, rows: 0 }),
      ours,
    );
    const exceptRuns = (lines: readonly string[]) => lines.filter((line) => !line.startsWith('_sync_runs: '));
    expect(exceptRuns(after)).toEqual(exceptRuns(before));
    expect(await bench().rows()).toEqual(rows);
    const lease = await sink.acquire(identity());
    expect(await sink.startRun(lease, bench().plan('r4', planOfAll))).toMatchObject({
      continues: null,
      due: 1,
    });
  });

  everywhere(
    'drops a connector with its records, runs and identity, and leaves the other one whole',
    async () => {
      const sink = await filled();
      const { before, after } = await changed(
        async () =>
          expect(await sink.repair.reset(news, scope({ withData: true }))).toEqual({
            partitions: 2,
            rows: 5,
          }),
        [lists, members, opens].map((entity) => ({ connector: news, entity })),
      );
      const isOurs = (line: string): boolean =>
        /^_sync_(runs|connectors|windows): .*connector=news\|/.test(line) ||
        /^_sync_counts: run=r\d/.test(line);
      expect(after).toEqual(before.filter((line) => !isOurs(line)));
      expect((await sink.history.connectors()).map(({ connector }) => connector)).toEqual([other]);
      const lease = await sink.acquire(identity({ baseUrl: 'https://another.example.test' }));
      await (await again({ sink, lease }, 'r1', ['1'])).finish();
      expect(await bench().rows()).toHaveLength(1);
    },
  );

  // Proves promise 13
  everywhere(
    'removes a connector with everything of it, also after an early end, and leaves the other one whole',
    async () => {
      const sink = await filled();
      await sink.pause([news], { since: instant(bench().clock.now()), reason: 'leaving' });
      await sink.purges.purge(news, purgeRequest([{ entity: lists, keyTexts: ['["purged"]'] }]));
      // What is written only where the settings ask for it, or while a run is under way.
      for (const connector of [news, other]) {
        for (const [table, columns, values] of [
          ['_sync_masks', 'entity, mask, key_id', "'unread', 'm', 'k'"],
          ['_sync_versions', 'entity, since', "'unread', ''"],
          ['_sync_retained', 'entity, complete_after, checked_at', "'unread', 0, ''"],
        ] as const) {
          await bench().ledger(
            `INSERT INTO ${table} (connector, ${columns}) VALUES ('${connector}', ${values})
             ON CONFLICT DO NOTHING`,
          );
        }
      }
      const holder = { pid: 1, host: 'here', command: 'remove', since: instant(bench().clock.now()) };
      const brokenOff = async (): Promise<void> => {
        const asked = { holder, before: () => Promise.resolve() };
        await expect(sink.repair.remove(news, asked)).rejects.toMatchObject({ code: 'CONNECTOR_BUSY' });
        throw new Error('broken off');
      };
      const { before, after } = await changed(
        async () => {
          const asked = { holder, before: brokenOff };
          await expect(sink.repair.remove(news, asked)).rejects.toThrow('broken off');
          const [status] = await sink.history.connectors([news]);
          expect(status?.entities.reduce((sum, { rows, deleted }) => sum + rows + deleted, 0)).toBe(5);
          await sink.repair.remove(news, { holder, before: () => Promise.resolve() });
          expect(await sink.history.connectors([news])).toEqual([]);
        },
        [lists, members, opens].map((entity) => ({ connector: news, entity })),
      );
      const isOurs = (line: string): boolean =>
        /^_sync_(?!counters|leases|purged|purge_keys)\w+: (.*\|)?connector=news(\||$)/.test(line) ||
        /^_sync_counts: run=r\d/.test(line);
      expect(after).toEqual(before.filter((line) => !isOurs(line)));
      expect(before.some((line) => line.startsWith('_sync_pauses: '))).toBe(true);
      expect((await sink.history.purged(news))?.noteOf(lists, '["purged"]')).not.toBeNull();
      expect((await sink.history.actions({ connector: news, limit: 1 }))[0]).toMatchObject({
        action: 'remove',
        detail: { entities: 3, rows: 5 },
      });
      const lease = await sink.acquire(identity({ baseUrl: 'https://another.example.test' }));
      await (await again({ sink, lease }, 'r1', ['1'])).finish();
      expect(await bench().rows()).toHaveLength(1);
    },
  );

  it.each<[string, ConnectorName, Partial<ResetScope>, RegExp]>([
    ['a connector that the sink does not have', 'nobody' as ConnectorName, {}, /"nobody"/],
    ['an entity that the sink does not have', news, { entity: 'nothing' as EntityName }, /news\/nothing/],
    [
      'rows that are made from records of another entity, naming that one',
      news,
      { entity: opens, tables: [membersTable, opensTable] },
      /news\/members/,
    ],
  ])('refuses to reset %s', async (_what, connector, what, message) => {
    const sink = await filled();
    const before = await contents([]);
    await expect(sink.repair.reset(connector, scope({ ...what, withData: true }))).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(message) as string,
    });
    expect(await contents([])).toEqual(before);
  });

  it('forgets a connector whose identity has changed, but not one that a process holds', async () => {
    const sink = await filled();
    const changedIdentity = identity({ connectorId: 'c-2' as ReturnType<typeof identity>['connectorId'] });
    await expect(sink.acquire(changedIdentity)).rejects.toMatchObject({ code: 'IDENTITY_CHANGED' });
    const lease = await sink.acquire(identity());
    await expect(sink.repair.reset(news, scope({ withData: true }))).rejects.toMatchObject({
      code: 'CONNECTOR_BUSY',
    });
    await lease[Symbol.asyncDispose]();
    await sink.repair.reset(news, scope({ withData: true }));
    await expect(sink.acquire(changedIdentity)).resolves.toMatchObject({ connector: news });
  });

  it('does not read again what lies below a vanished record', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), planOfAll);
    await (await sweep('r1', showingOpens(['1']))).finish();
    const hand = await sweep('r2', () => ({ records: [] }));
    expect(await hand.tombstone([lists, members])).toEqual({ lists: 1, members: 1 });
    await hand.finish();
    await lease[Symbol.asyncDispose]();
    expect(await sink.repair.reset(news, scope(ofMembers))).toEqual({ partitions: 0, rows: 0 });
    expect(
      await bench().ledger("SELECT gone, due_since FROM _sync_partitions WHERE entity = 'members'"),
    ).toEqual([{ gone: 2, due_since: null }]);
  });

  it('lets an unfinished run continue with the other entities alone', async () => {
    const { sink, lease, begin } = await useRuns(bench(), {
      ...planOfAll,
      entities: [lists],
      tables: [listsTable],
    });
    const whole = await begin('r1', planOfAll);
    await whole.walk(showingOpens(['1']));
    await whole.sweep();
    await whole.finish();
    await begin('r2');
    await lease[Symbol.asyncDispose]();
    await sink.repair.reset(news, scope(ofMembers));
    const next = await sink.acquire(identity());
    const only = bench().plan('r3', { ...planOfAll, entities: [lists], tables: [listsTable] });
    expect(await sink.startRun(next, only)).toMatchObject({ continues: 'r2' });
    expect((await sink.nextPartitions(next, 9)).map(({ entity }) => entity)).toEqual([lists]);
  });
}
