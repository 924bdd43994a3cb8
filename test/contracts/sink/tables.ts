import { expect, it as everywhere, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type {
  Column,
  EntityTable,
  FieldDrift,
  PageCounts,
  PreparedRecord,
  FieldType,
} from '../../../src/core/records.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';
import { withEvolved } from '../../../src/engine/prepare/schema-policy.ts';
import type { KnownDrift } from '../../../src/sinks/readings.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  hourMs,
  member,
  members,
  membersTable,
  news,
  page,
  sealed,
  type SinkKind,
  type Bench,
  counts,
  record,
} from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

const drifted = (field: string, change: Partial<FieldDrift> = {}): FieldDrift => ({
  entity: members,
  field,
  kind: 'undeclared',
  type: 'string',
  ...change,
});

/** As the engine prepares them: with real hashes. */
export function prepared(
  table: EntityTable,
  raws: readonly JsonObject[],
): { readonly records: readonly PreparedRecord[]; readonly drift: readonly FieldDrift[] } {
  const prepare = compilePrepare({ table, ignored: new Set(), volatile: [], explodedField: null });
  const all = raws.map((raw) => prepare(raw, { list_id: 'a' }));
  return {
    records: all.flatMap((one) => (one.kind === 'record' ? [one.record] : [])),
    drift: all.flatMap(({ drift }) => drift),
  };
}

/** What runs read, and what is known of their fields then. */
function driftOf(bench: () => Bench) {
  const fields = async (sink: Sink) => (await sink.history.drift(news)).map(({ field }) => field);

  const knownDrift = async (sink: Sink, entity: EntityName = members): Promise<KnownDrift | undefined> =>
    (await sink.drift.known(news, [entity])).get(entity);

  /** A run that reads these records, evolves what it may and ends well. */
  async function sync(
    sink: Sink,
    lease: Lease,
    name: string,
    raws: readonly JsonObject[],
    plan: Partial<RunPlan> = {},
    isEvolving = true,
  ): Promise<{ readonly counts: PageCounts | undefined; readonly evolved: readonly Column[] }> {
    const known = withEvolved(membersTable, (await knownDrift(sink)) ?? { evolved: [] });
    const [table = known] = plan.tables ?? [];
    bench().clock.advance(hourMs);
    const { run, commit, finish } = await bench().walking(
      name,
      { tables: [table], ...plan },
      { sink, lease },
    );
    const { records, drift } = prepared(table, raws);
    const committed = await commit(records, { drift, seal: sealed });
    const evolved = isEvolving ? await sink.drift.evolve(lease, run, members) : [];
    await finish();
    return { counts: committed.counts[0]?.counts, evolved };
  }

  return { fields, knownDrift, sync };
}

export function drifting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const { fields, knownDrift, sync } = driftOf(bench);

  // Proves promise 7.2
  it('reports each undeclared and misfitting field with its types, and when it came first', async () => {
    const { sink, lease } = await bench().hold();
    const raws = [
      { id: '1', nick: 'x', visits: 'many' },
      { id: '2', nick: 'y' },
    ];
    await sync(sink, lease, 'r1', raws, {}, false);
    const first = (await sink.history.runs({ limit: 1 }))[0];
    await sync(sink, lease, 'r2', [{ id: '1', nick: 7, 'Odd one': null }], {}, false);
    const seen = { connector: 'news', entity: 'members', place: 'extra' };
    const inFirst = { ...seen, firstRun: 'r1', firstSeenAt: first?.startedAt };
    expect(await sink.history.drift(news)).toMatchObject([
      { ...seen, field: 'Odd one', kind: 'undeclared', types: ['null'], firstRun: 'r2' },
      { ...inFirst, field: 'nick', kind: 'undeclared', types: ['string', 'integer'] },
      { ...inFirst, field: 'visits', kind: 'misfit', types: ['string'] },
    ]);
    expect(await knownDrift(sink))?.toEqual({
      evolved: [],
      fields: new Set(['nick', 'Odd one']),
      misfits: new Map([['visits', new Set(['string'])]]),
      isEstablished: true,
    });
  });

  it('knows nothing of an entity that was never read, and establishes one that was read whole', async () => {
    const { sink, commit, finish } = await bench().walking();
    expect(await knownDrift(sink, 'nothing' as EntityName)).toMatchObject({ isEstablished: false });
    expect(await knownDrift(sink))?.toMatchObject({ fields: new Set(), isEstablished: false });
    await commit([], { drift: [drifted('nick')], seal: sealed });
    expect(await knownDrift(sink))?.toMatchObject({
      fields: new Set(['nick']),
      isEstablished: false,
    });
    await finish();
    expect((await knownDrift(sink))?.isEstablished).toBe(true);
  });

  it('keeps what was noted by a transaction that failed out, and notes it when it comes again', async () => {
    const { sink, started, id, commit } = await bench().walking();
    const unfit: PreparedRecord = { ...member('1'), values: ['a', '1'] };
    const drift = [drifted('nick')];
    await expect(
      sink.commit(started.lease, [page(started, id, [], { drift }), page(started, id, [unfit], { drift })]),
    ).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(await fields(sink)).toEqual([]);
    await commit([member('1')], { drift });
    expect(await fields(sink)).toEqual(['nick']);
  });

  it.each([
    '"; DROP TABLE _sync_drift; --',
    '',
    '__proto__',
    "a'b",
    '$.a[0]',
    'a\u0000b',
    '\u202e',
    'x'.repeat(200),
  ])('takes %j for the name that it is', async (field) => {
    const { sink, lease } = await bench().hold();
    const raw = JSON.parse(`{"id":"1",${JSON.stringify(field)}:"x"}`) as JsonObject;
    expect((await sync(sink, lease, 'r1', [raw])).evolved).toEqual([]);
    expect(await fields(sink)).toEqual([field]);
    expect((await knownDrift(sink))?.fields.has(field)).toBe(true);
    expect(Object.entries((await bench().rows())[0]?.['_extra'] ?? {})).toEqual([[field, 'x']]);
  });

  it('does not know a field whose records were refused, until one is stored', async () => {
    const { sink, started, commit } = await bench().walking();
    const refused = drifted('nick', { isRefused: true });
    await commit([], { drift: [refused] });
    expect((await knownDrift(sink))?.fields).toEqual(new Set());
    expect(await sink.history.drift(news)).toMatchObject([{ field: 'nick', place: 'quarantine' }]);
    expect(await sink.drift.evolve(started.lease, started.run, members)).toEqual([]);
    await commit([], { drift: [drifted('nick')] });
    await commit([], { drift: [refused] });
    expect((await knownDrift(sink))?.fields).toEqual(new Set(['nick']));
    expect(await sink.history.drift(news)).toMatchObject([{ field: 'nick', place: 'extra' }]);
  });
}

/** Columns that are added for undeclared fields. */
export function evolving(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const { knownDrift, sync } = driftOf(bench);

  // Proves promise 7.2
  everywhere(
    'adds a column of the one type that a field came as, and counts no record as changed by it',
    async () => {
      const raws = [
        { id: '1', city: 'Kyiv', age: 7, rate: 1, open: true, more: { b: 1, a: [2] }, tags2: ['x'], left: 1 },
        { id: '2', city: null, rate: 0.5, open: false },
        { id: '3' },
      ];
      const { sink, lease } = await bench().hold();
      const first = await sync(sink, lease, 'r1', [...raws, { id: '4', left: 'mixed' }]);
      const types = {
        age: 'integer',
        city: 'string',
        more: 'object',
        open: 'boolean',
        rate: 'number',
        tags2: 'array',
      };
      expect(first.evolved).toEqual(
        Object.entries(types).map(([name, type]) => ({ name, type, isEvolved: true })),
      );
      const wider = withEvolved(membersTable, (await knownDrift(sink)) ?? { evolved: [] });
      const before = await bench().rows(wider);
      const second = await sync(sink, lease, 'r2', [...raws, { id: '4', left: 'mixed' }]);
      expect(second).toEqual({ counts: counts({ fetched: 4, unchanged: 4 }), evolved: [] });
      expect(await bench().rows(wider), 'an unchanged record costs no write').toEqual(before);
      expect((await sink.history.drift(news)).map(({ field, place }) => [field, place])).toEqual(
        ['age', 'city', 'left', 'more', 'open', 'rate', 'tags2'].map((field) => [
          field,
          field === 'left' ? 'extra' : 'column',
        ]),
      );
    },
  );

  everywhere('stores what comes from then on in the column, and beside it what does not fit', async () => {
    const { sink, lease } = await bench().hold();
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const next = [
      { id: '1', city: 'Lviv' },
      { id: '2', city: 'Odesa' },
      { id: '3', city: 7, Left: 1 },
    ];
    expect((await sync(sink, lease, 'r2', next)).counts).toEqual(
      counts({ fetched: 3, updated: 1, inserted: 2 }),
    );
    const wider = withEvolved(membersTable, { evolved: [{ name: 'city', type: 'string' }] });
    expect((await bench().rows(wider)).map(({ city, _extra }) => [city, _extra ?? null])).toEqual([
      ['Lviv', null],
      ['Odesa', null],
      [null, { city: 7, Left: 1 }],
    ]);
    expect(await sink.history.drift(news)).toMatchObject([
      { field: 'Left' },
      { field: 'city', kind: 'undeclared', place: 'column' },
      { field: 'city', kind: 'misfit', types: ['integer'], place: 'extra' },
    ]);
  });

  // Proves promise 7.2
  everywhere(
    'widens an added column of integers to numbers, and rewrites no row that says the same',
    async () => {
      const { sink, lease } = await bench().hold();
      const big = 2n ** 53n + 1n;
      const old = { rate: 0, exact: big, until: 2 ** 53 - 1 };
      const three = ['1', '2', '3'].map((id) => ({ id, ...old }));
      await sync(sink, lease, 'r1', three);
      const [made] = await bench().ledger("SELECT table_id FROM _sync_tables WHERE entity = 'members'");
      const next = [
        { id: '1', ...old },
        { id: '2', rate: 0.25, exact: 1.5, until: 1e-3 },
        { id: '3', ...old, rate: 'n/a' },
      ];
      const number = { type: 'number', isEvolved: true };
      expect((await sync(sink, lease, 'r2', next)).evolved).toEqual([
        { name: 'rate', ...number },
        { name: 'until', ...number },
      ]);
      const wider = withEvolved(membersTable, (await knownDrift(sink)) ?? { evolved: [] });
      const rows = async () =>
        (await bench().rows(wider)).map(({ rate = null, exact = null, until = null, _extra = null }) => [
          rate,
          exact,
          until,
          _extra,
        ]);
      const stored = [
        [0, big, 2 ** 53 - 1, null],
        [0.25, null, 0.001, { exact: 1.5 }],
        [null, big, 2 ** 53 - 1, { rate: 'n/a' }],
      ];
      expect(await rows()).toEqual(stored);
      const third = await sync(sink, lease, 'r3', next);
      expect(third).toEqual({ counts: counts({ fetched: 3, unchanged: 3 }), evolved: [] });
      expect(await rows()).toEqual(stored);
      expect(await bench().ledger("SELECT table_id FROM _sync_tables WHERE entity = 'members'")).not.toEqual([
        made,
      ]);
      const places = (await sink.history.drift(news)).filter(({ kind: what }) => what === 'misfit');
      expect(places.map(({ field, types, place }) => [field, types, place])).toEqual([
        ['exact', ['number'], 'extra'],
        ['rate', ['number', 'string'], 'extra'],
        ['until', ['number'], 'column'],
      ]);
      const fourth = await sync(sink, lease, 'r4', [{ ...next[0], rate: 0.5 }, ...next.slice(1)]);
      expect(fourth.counts).toMatchObject({ updated: 1, unchanged: 2 });
      expect((await rows())[0]).toEqual([0.5, big, 2 ** 53 - 1, null]);
    },
  );

  // Proves promise 7.2
  everywhere('moves integers to the last digit, and leaves those of other fields as they are', async () => {
    const { sink, lease } = await bench().hold();
    const big = 2n ** 60n;
    const all = { big, more: { big }, mixed: big, huge: 10n ** 400n };
    const { evolved } = await sync(sink, lease, 'r1', [
      { id: '1', ...all },
      { id: '2', ...all, mixed: 'text', huge: 'text' },
    ]);
    expect(evolved.map(({ name, type }) => [name, type])).toEqual([
      ['big', 'integer'],
      ['more', 'object'],
    ]);
    const texts = ['big', 'more', '_extra'].map((name) => `CAST(${name} AS TEXT) AS ${name}`);
    expect(await bench().ledger(`SELECT ${texts.join(', ')} FROM news__members ORDER BY _row`)).toEqual([
      { big: `${big}`, more: `{"big":${big}}`, _extra: `{"huge":1${'0'.repeat(400)},"mixed":${big}}` },
      { big: `${big}`, more: `{"big":${big}}`, _extra: '{"huge":"text","mixed":"text"}' },
    ]);
  });

  it('stores without the column in a run whose plan lacks it, and fills it in the next run that has it', async () => {
    const { sink, lease } = await bench().hold();
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const again = [
      { id: '1', city: 'Kyiv' },
      { id: '2', city: 'Lviv' },
    ];
    const untold = await sync(sink, lease, 'r2', again, { tables: [membersTable] });
    expect(untold.counts).toMatchObject({ unchanged: 1, inserted: 1 });
    expect((await sync(sink, lease, 'r3', again)).counts).toMatchObject({ unchanged: 2 });
  });
}

const retyped: FieldType = 'boolean';
const retypedTo: FieldType = 'string';
const withColumns = (...columns: readonly Column[]): EntityTable => ({
  ...membersTable,
  columns: [...membersTable.columns, ...columns],
});
const planned = (table: EntityTable): Partial<RunPlan> => ({ tables: [table] });

export function tableChanges(kind: SinkKind): void {
  const bench = useBench(kind);

  it('adds a column that the definition now declares, and stores its values from then on', async () => {
    const first = await bench().walking('r1', planned(membersTable));
    await first.commit([member('1')]);
    const wider = withColumns({ name: 'city', type: 'string' });
    const next = await bench().walking('r2', planned(wider), first);
    await next.commit([record(wider, { list_id: 'a', id: '2', city: 'Kyiv' })]);
    expect(await bench().rows(wider)).toMatchObject([
      { id: '1', name: 'Ada' },
      { id: '2', city: 'Kyiv' },
    ]);
  });

  it('still stores when the definition no longer declares a column, clears it where the row is written again, and fills it when it is declared again', async () => {
    const wider = withColumns({ name: 'city', type: 'string' });
    const first = await bench().walking('r1', planned(wider));
    await first.commit([record(wider, { list_id: 'a', id: '1', city: 'Kyiv' })]);
    const next = await bench().walking('r2', planned(membersTable), first);
    const committed = await next.commit([member('1', 'Ada', { extra: '{"city":"Kyiv"}' })]);
    expect(committed.counts[0]?.counts).toEqual(counts({ fetched: 1, updated: 1 }));
    const [row] = await bench().rows(wider);
    expect([row?.['city'] ?? null, row?.['_extra']]).toEqual([null, { city: 'Kyiv' }]);
    await bench().walking('r3', planned(wider), first);
    const [again] = await bench().rows(wider);
    expect([again?.['city'], again?.['_extra'] ?? null]).toEqual(['Kyiv', null]);
  });

  it.each<[string, EntityTable]>([
    ['another key', { ...membersTable, key: ['id'] }],
    [
      'another type of a column',
      {
        ...membersTable,
        columns: membersTable.columns.map((one) => (one.name === 'visits' ? { ...one, type: retyped } : one)),
      },
    ],
  ])('refuses %s, and stays usable with the old definition', async (_what, changed) => {
    const { sink, lease } = await bench().hold();
    await sink.startRun(lease, bench().plan('r1', planned(membersTable)));
    await expect(sink.startRun(lease, bench().plan('r2', planned(changed)))).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
      context: { connector: 'news', entity: members },
    });
    const usual = await sink.startRun(lease, bench().plan('r3', planned(membersTable)));
    expect(usual.run).toBe('r3');
  });

  it('makes texts of columns that are declared as texts now, in deleted rows and versions too', async () => {
    const after = {
      ...membersTable,
      columns: membersTable.columns.map((one) => ({ ...one, type: retypedTo })),
    };
    const versions = new Set([members]);
    const first = await bench().walking('r1', { ...planned(membersTable), versions });
    const { sink } = first;
    const one = {
      list_id: 'a',
      id: '1',
      name: 'Ada',
      score: 0.1 + 0.2,
      vip: 1,
      tags: '[1,"b"]',
      anything: '"text"',
    };
    const rows = [
      record(membersTable, { ...one, visits: 9007199254740993n }),
      record(membersTable, { list_id: 'a', id: '2', vip: 0, address: '{"a":1}' }),
      record(membersTable, { list_id: 'a', id: '3', score: 1 }),
    ];
    await first.commit(rows);
    await first.commit([record(membersTable, { ...one, visits: 2 })]);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, '["a","2"]');
    const tableId = async () =>
      await bench().ledger(`SELECT table_id FROM _sync_tables WHERE entity = 'members'`);
    const before = await tableId();
    await sink.startRun(first.lease, bench().plan('r2', { ...planned(after), versions }));
    expect(await tableId()).not.toEqual(before);
    const columns = 'visits, score, vip, address, tags, anything';
    const texts = async (table: string): Promise<readonly unknown[]> =>
      (await bench().ledger(`SELECT ${columns} FROM ${table} ORDER BY _row, _seq`)).map((row) =>
        Object.values(row),
      );
    const rest = ['0.30000000000000004', 'true', null, '[1,"b"]', 'text'];
    const stored = [
      ['2', ...rest],
      [null, null, 'false', '{"a":1}', null, null],
      [null, '1', null, null, null, null],
    ];
    expect(await texts('news__members')).toEqual(stored);
    expect(await texts('news__members__history')).toEqual([
      ['9007199254740993', ...rest],
      stored[0],
      stored[1],
      ...stored.slice(1),
    ]);
    expect(await bench().rows(after)).toHaveLength(2);
  });
}
