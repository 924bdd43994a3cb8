import { expect, it as everywhere } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type {
  Column,
  EntityTable,
  FieldDrift,
  PageCounts,
  PreparedRecord,
} from '../../../src/core/records.ts';
import { withEvolved } from '../../../src/engine/prepare/schema-policy.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';
import type { KnownDrift } from '../../../src/sinks/drift.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink.ts';
import {
  counts,
  entityReport,
  hourMs,
  identity,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  report,
  sealed,
  type SinkKind,
  type Started,
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
function prepared(
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

export function drifting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const fields = async (sink: Sink): Promise<readonly string[]> =>
    (await sink.history.drift(news)).map(({ field }) => field);

  const knownDrift = async (sink: Sink, entity: EntityName = members): Promise<KnownDrift | undefined> =>
    (await sink.drift.known(news, [entity])).get(entity);

  /** A run that reads these records, evolves what it may and ends well. */
  async function sync(
    sink: Sink,
    lease: Lease,
    run: string,
    raws: readonly JsonObject[],
    table?: EntityTable,
  ): Promise<{ readonly counts: PageCounts | undefined; readonly evolved: readonly Column[] }> {
    return await readAndEvolve(sink, lease, run, raws, { table, isEvolving: true });
  }

  async function readAndEvolve(
    sink: Sink,
    lease: Lease,
    run: string,
    raws: readonly JsonObject[],
    how: { readonly table?: EntityTable | undefined; readonly isEvolving: boolean },
  ): Promise<{ readonly counts: PageCounts | undefined; readonly evolved: readonly Column[] }> {
    const started: Started = { lease, run: run as RunId };
    const table = how.table ?? withEvolved(membersTable, (await knownDrift(sink)) ?? { evolved: [] });
    bench().clock.advance(hourMs);
    await sink.startRun(lease, bench().plan(run, { tables: [table] }));
    const { id } = await onlyPartition(sink, lease);
    const { records, drift } = prepared(table, raws);
    const [committed] = await sink.commit(lease, [page(started, id, records, { drift, seal: sealed })]);
    const counted = committed?.counts[0]?.counts;
    const evolved = how.isEvolving ? await sink.drift.evolve(lease, started.run, members) : [];
    await sink.finish(
      lease,
      started.run,
      report(started, { entities: [entityReport(members, { ...counted })] }),
    );
    return { counts: counted, evolved };
  }

  // Proves promise 7.2
  it('reports each undeclared and misfitting field with its types, and when it came first', async () => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await readAndEvolve(
      sink,
      lease,
      'r1',
      [
        { id: '1', nick: 'x', visits: 'many' },
        { id: '2', nick: 'y' },
      ],
      { isEvolving: false },
    );
    const first = (await sink.history.runs({ limit: 1 }))[0];
    await readAndEvolve(sink, lease, 'r2', [{ id: '1', nick: 7, 'Odd one': null }], { isEvolving: false });
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
    const sink = await bench().open();
    const { lease, run } = await bench().begin(sink, 'r1');
    expect(await knownDrift(sink, 'nothing' as EntityName)).toMatchObject({ isEstablished: false });
    expect(await knownDrift(sink))?.toMatchObject({ fields: new Set(), isEstablished: false });
    const { id } = await onlyPartition(sink, lease);
    await sink.commit(lease, [page({ lease, run }, id, [], { drift: [drifted('nick')], seal: sealed })]);
    expect(await knownDrift(sink))?.toMatchObject({
      fields: new Set(['nick']),
      isEstablished: false,
    });
    await sink.finish(lease, run, report({ lease, run }, { entities: [entityReport(members, {})] }));
    expect((await knownDrift(sink))?.isEstablished).toBe(true);
  });

  it('keeps what was noted by a transaction that failed out, and notes it when it comes again', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const unfit: PreparedRecord = { ...member('1'), values: ['a', '1'] };
    const drift = [drifted('nick')];
    await expect(
      sink.commit(started.lease, [page(started, id, [], { drift }), page(started, id, [unfit], { drift })]),
    ).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(await fields(sink)).toEqual([]);
    await sink.commit(started.lease, [page(started, id, [member('1')], { drift })]);
    expect(await fields(sink)).toEqual(['nick']);
  });

  it('tells two hundred fields of an entity apart and counts the rest under one name', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const many = Array.from({ length: 500 }, (_, index) => drifted(`made up ${index}`));
    for (const drift of [many.slice(0, 150), many.slice(150, 400), many]) {
      await sink.commit(started.lease, [page(started, id, [], { drift })]);
    }
    expect(await fields(sink)).toHaveLength(201);
    expect(await fields(sink)).toContain('*');
    expect((await knownDrift(sink))?.fields.has('*')).toBe(true);
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
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    const raw = JSON.parse(`{"id":"1",${JSON.stringify(field)}:"x"}`) as JsonObject;
    expect((await sync(sink, lease, 'r1', [raw])).evolved).toEqual([]);
    expect(await fields(sink)).toEqual([field]);
    expect((await knownDrift(sink))?.fields.has(field)).toBe(true);
    expect(Object.entries((await bench().rows())[0]?.['_extra'] ?? {})).toEqual([[field, 'x']]);
  });

  it('does not know a field whose records were refused, until one is stored', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const refused = drifted('nick', { isRefused: true });
    await sink.commit(started.lease, [page(started, id, [], { drift: [refused] })]);
    expect((await knownDrift(sink))?.fields).toEqual(new Set());
    expect(await sink.history.drift(news)).toMatchObject([{ field: 'nick', place: 'quarantine' }]);
    expect(await sink.drift.evolve(started.lease, started.run, members)).toEqual([]);
    await sink.commit(started.lease, [page(started, id, [], { drift: [drifted('nick')] })]);
    await sink.commit(started.lease, [page(started, id, [], { drift: [refused] })]);
    expect((await knownDrift(sink))?.fields).toEqual(new Set(['nick']));
    expect(await sink.history.drift(news)).toMatchObject([{ field: 'nick', place: 'extra' }]);
  });

  // Proves promise 7.2
  everywhere(
    'adds a column of the one type that a field came as, and counts no record as changed by it',
    async () => {
      const raws = [
        { id: '1', city: 'Kyiv', age: 7, rate: 1, open: true, more: { b: 1, a: [2] }, tags2: ['x'], left: 1 },
        { id: '2', city: null, rate: 0.5, open: false },
        { id: '3' },
      ];
      const sink = await bench().open();
      const lease = await sink.acquire(identity());
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
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
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

  everywhere.each<[string, JsonObject]>([
    ['values of two types', { id: '2', nick: 7 }],
    ['a value of another type that came earlier', { id: '1', nick: true }],
  ])('adds no column for a field with %s', async (_what, raw) => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    const { evolved } = await sync(sink, lease, 'r1', [{ id: '1', nick: 'x' }, raw]);
    expect(evolved).toEqual([]);
  });

  it.each(['Nick', '_nick', 'nick name', 'NAME', 'n'.repeat(41), 'größe'])(
    'adds no column that no definition could declare: %s',
    async (field) => {
      const sink = await bench().open();
      const lease = await sink.acquire(identity());
      expect((await sync(sink, lease, 'r1', [{ id: '1', [field]: 'x', other: null }])).evolved).toEqual([]);
    },
  );

  it('ends the drift of a field that the definition declares by now, without moving anything', async () => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const column: Column = { name: 'city', type: 'string' };
    const declared = { ...membersTable, columns: [...membersTable.columns, column] };
    await sync(sink, lease, 'r2', [{ id: '1', city: 'Kyiv' }], declared);
    expect((await knownDrift(sink))?.evolved).toEqual([]);
    expect(await fields(sink)).toEqual([]);
    expect(await bench().rows(declared)).toMatchObject([{ city: 'Kyiv' }]);
  });

  it('refuses a definition that declares the field as something else', async () => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const declared: EntityTable = {
      ...membersTable,
      columns: [...membersTable.columns, { name: 'city', type: 'integer' }],
    };
    await expect(sync(sink, lease, 'r2', [], declared)).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
    await expect(sync(sink, lease, 'r3', [{ id: '1', city: 'Kyiv' }])).resolves.toMatchObject({
      counts: { unchanged: 1 },
    });
  });

  everywhere('takes the column of a field that was declared once and is no more', async () => {
    const city: Column = { name: 'city', type: 'string' };
    const declared = { ...membersTable, columns: [...membersTable.columns, city] };
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }], declared);
    const { evolved } = await sync(sink, lease, 'r2', [{ id: '1', city: 'Lviv' }], membersTable);
    expect(evolved).toEqual([{ ...city, isEvolved: true }]);
    expect((await sync(sink, lease, 'r3', [{ id: '1', city: 'Odesa' }])).counts).toMatchObject({
      updated: 1,
    });
    expect(await bench().rows(declared)).toMatchObject([{ city: 'Odesa' }]);
  });

  it('stores without the column in a run whose plan lacks it, and fills it in the next run that has it', async () => {
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const untold = await sync(
      sink,
      lease,
      'r2',
      [
        { id: '1', city: 'Kyiv' },
        { id: '2', city: 'Lviv' },
      ],
      membersTable,
    );
    expect(untold.counts).toMatchObject({ unchanged: 1, inserted: 1 });
    const again = [
      { id: '1', city: 'Kyiv' },
      { id: '2', city: 'Lviv' },
    ];
    expect((await sync(sink, lease, 'r3', again)).counts).toMatchObject({ unchanged: 2 });
  });

  it('refuses to evolve with a lease that another holder has overtaken', async () => {
    const sink = await bench().open();
    const old = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, old.lease);
    await sink.commit(old.lease, [page(old, id, [], { drift: [drifted('city')] })]);
    await expect(sink.drift.evolve(old.lease, 'r0' as RunId, members)).rejects.toMatchObject({
      code: 'FENCED',
    });
    expect((await knownDrift(sink))?.evolved).toEqual([]);
  });
}
