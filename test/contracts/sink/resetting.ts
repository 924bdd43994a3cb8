import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { ResetScope } from '../../../src/sinks/repair.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  identity,
  lists,
  listsTable,
  member,
  members,
  membersTable,
  news,
  opens,
  opensTable,
  page,
  partition,
  record,
  rootOf,
  sealed,
  type SinkKind,
  type StoredEntity,
} from './fixture.ts';
import { RunInHand, useRuns, type Shown } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

const other = 'mail' as ConnectorName;
const tables = [listsTable, membersTable, opensTable];
const plan: Partial<RunPlan> = { tables, entities: [lists, members], roots: [rootOf(lists)] };

const showing =
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
  const scope = (change: Partial<ResetScope>): ResetScope => ({
    entity: null,
    tables: [],
    withData: false,
    now: instant(bench().clock.now()),
    ...change,
  });
  const ofMembers = { entity: members, tables: [membersTable, opensTable] };
  const theirs = [members, opens].map((entity) => ({ connector: news, entity }));
  /** Without the notes that the reset makes of itself. */
  const contents = async (without: readonly StoredEntity[]): Promise<readonly string[]> =>
    (await kind.contents(bench().folder, without)).filter(
      (line) => !/^(_sync_actions: |_sync_commits: |sqlite_sequence: name=_sync_actions)/.test(line),
    );

  /**
   * Two connectors with rows, shared rows, missing rows, windows, a refused record and an unfinished run; no process
   * holds the first.
   */
  async function filled(): Promise<RunInHand['sink']> {
    const { sink, lease, sweep, begin } = await useRuns(bench(), plan);
    const first = await begin('r1');
    await first.walk(showing(['1', '2', '3']));
    await first.sweep();
    await first.finish();
    await (await sweep('r2', showing(['1', '2']))).finish('degraded');
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
        children: showing([])({ entity: lists }).children ?? [],
        refused,
      }),
    ]);
    await lease[Symbol.asyncDispose]();
    const mail = await sink.acquire(identity({ connector: other }));
    const theirRun = await RunInHand.begin(bench(), { sink, lease: mail }, 'm1', plan);
    await theirRun.walk(showing(['1']));
    await theirRun.sweep();
    await theirRun.finish();
    await mail[Symbol.asyncDispose]();
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
    expect(await sink.history.missing(news, 9)).toEqual([]);
    const lease = await sink.acquire(identity());
    const next = await RunInHand.begin(bench(), { sink, lease }, 'r4', plan);
    await next.walk(showing(['1', '2', '3']));
    await next.sweep();
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
        ...kind.ownTables,
      ]) {
        expect(
          await bench().ledger(
            `SELECT * FROM ${table} WHERE connector = 'news' AND entity IN ('members', 'member_opens')`,
          ),
          table,
        ).toEqual([]);
      }
      const lease = await sink.acquire(identity());
      const next = await RunInHand.begin(bench(), { sink, lease }, 'r4', plan);
      await next.walk(showing(['1', '7']));
      await next.sweep();
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
    expect(await sink.startRun(lease, bench().plan('r4', plan))).toMatchObject({ continues: null, due: 1 });
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
      const next = await RunInHand.begin(bench(), { sink, lease }, 'r1', plan);
      await next.walk(showing(['1']));
      await next.finish();
      expect(await bench().rows()).toHaveLength(1);
    },
  );

  // Proves promise 13
  everywhere(
    'removes a connector with everything of it, also after an early end, and leaves the other one whole',
    async () => {
      const sink = await filled();
      await sink.pause([news], { since: instant(bench().clock.now()), reason: 'leaving' });
      await sink.purges.purge(news, {
        of: [{ entity: lists, keyTexts: ['["purged"]'] }],
        canReturn: false,
        targets: [],
        removeFile: () => Promise.reject(new Error('There is no file')),
        signal: AbortSignal.timeout(60_000),
      });
      // What is written only where the settings ask for it, or while a run is under way.
      for (const connector of [news, other]) {
        for (const [table, columns, values] of [
          ['_sync_masks', 'entity, mask, key_id', "'unread', 'm', 'k'"],
          ['_sync_versions', 'entity, since', "'unread', ''"],
          ['_sync_retained', 'entity, complete_after, checked_at', "'unread', 0, ''"],
          ['_sync_progress', 'run, shown', "'r', '{}'"],
        ] as const) {
          await bench().ledger(
            `INSERT INTO ${table} (connector, ${columns}) VALUES ('${connector}', ${values})
             ON CONFLICT DO NOTHING`,
          );
        }
      }
      const holder = { pid: 1, host: 'here', command: 'remove', since: instant(bench().clock.now()) };
      const left: (number | null)[] = [];
      const { before, after } = await changed(
        async () => {
          const begun = await sink.repair.remove(news, holder);
          expect(await begun.dropSome()).toBeGreaterThan(-1);
          await expect(sink.repair.remove(news, holder)).rejects.toMatchObject({ code: 'CONNECTOR_BUSY' });
          await begun[Symbol.asyncDispose]();
          expect(await sink.history.removal(news)).toMatchObject({ rows: 5 });
          expect(await sink.history.connectors([news])).toEqual([]);
          const refused = { code: 'REMOVAL_UNFINISHED' };
          await expect(sink.acquire(identity())).rejects.toMatchObject(refused);
          await expect(sink.repair.reset(news, scope({}))).rejects.toMatchObject(refused);
          await using resumed = await sink.repair.remove(news, holder);
          do left.push(await resumed.dropSome());
          while (left.at(-1) !== null);
          await resumed.finish();
        },
        [lists, members, opens].map((entity) => ({ connector: news, entity })),
      );
      const isOurs = (line: string): boolean =>
        /^_sync_(?!counters|leases|purged|purge_keys)\w+: (.*\|)?connector=news(\||$)/.test(line) ||
        /^_sync_counts: run=r\d/.test(line);
      expect(after).toEqual(before.filter((line) => !isOurs(line)));
      expect(before.some((line) => line.startsWith('_sync_pauses: '))).toBe(true);
      expect(await sink.history.removal(news)).toBeNull();
      expect((await sink.history.purged(news))?.noteOf(lists, '["purged"]')).not.toBeNull();
      expect((await sink.history.actions({ connector: news, limit: 1 }))[0]).toMatchObject({
        action: 'remove',
        detail: { entities: 3, rows: 5 },
      });
      const lease = await sink.acquire(identity({ baseUrl: 'https://another.example.test' }));
      const next = await RunInHand.begin(bench(), { sink, lease }, 'r1', plan);
      await next.walk(showing(['1']));
      await next.finish();
      expect(await bench().rows()).toHaveLength(1);
    },
  );

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

  it('does not read again what lies below a vanished record', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(['1']))).finish();
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
      ...plan,
      entities: [lists],
      tables: [listsTable],
    });
    const whole = await begin('r1', plan);
    await whole.walk(showing(['1']));
    await whole.sweep();
    await whole.finish();
    await begin('r2');
    await lease[Symbol.asyncDispose]();
    await sink.repair.reset(news, scope(ofMembers));
    const next = await sink.acquire(identity());
    const only = bench().plan('r3', { ...plan, entities: [lists], tables: [listsTable] });
    expect(await sink.startRun(next, only)).toMatchObject({ continues: 'r2' });
    expect((await sink.nextPartitions(next, 9)).map(({ entity }) => entity)).toEqual([lists]);
  });
}
