import { expect, it as everywhere } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { Column } from '../../../src/core/records.ts';
import { withEvolved } from '../../../src/engine/prepare/schema-policy.ts';
import { drifted, driftOf } from './drifting.ts';
import {
  counts,
  identity,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  type SinkKind,
} from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** Columns that are added for undeclared fields. */
export function evolving(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const { fields, knownDrift, sync, readAndEvolve } = driftOf(bench);

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
      await sync(
        sink,
        lease,
        'r1',
        ['1', '2', '3'].map((id) => ({ id, ...old })),
      );
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
  everywhere('makes a text column of an added one when a person asks for it, and never before', async () => {
    const sink = await bench().open();
    const read = async (run: string, raws: readonly JsonObject[]) => {
      await using lease = await sink.acquire(identity());
      const plan = { versions: new Set([members]) };
      return await readAndEvolve(sink, lease, run, raws, { isEvolving: true, plan });
    };
    const big = 2n ** 63n - 1n;
    const all = ['rate', 'big', 'open'];
    const first = { id: '1', rate: 0.5, big, open: true };
    const fourth = { id: '4', rate: 1, big: 2, open: true };
    await read('r1', [first, { id: '2', rate: 1e21, big: 1, open: false }, { id: '3', rate: -0 }, fourth]);
    const raws = [
      first,
      { id: '2', rate: 'n/a', big: 'many', open: 'perhaps' },
      { id: '3', rate: -0, big: null, open: { is: 'odd' } },
      { ...fourth, open: 7 },
    ];
    await read('r2', raws);
    const tableId = async () =>
      await bench().ledger(`SELECT table_id FROM _sync_tables WHERE entity = 'members'`);
    const places = async () =>
      (await sink.history.drift(news))
        .filter(({ kind: what }) => what === 'misfit')
        .map(({ field, place, canWiden }) => [field, place, canWiden]);
    await read('r3', raws);
    expect(await places()).toEqual(all.toSorted().map((field) => [field, 'extra', true]));
    const before = await tableId();
    for (const field of all) await sink.drift.widen({ connector: news, entity: members }, field);

    expect((await read('r4', raws)).counts).toEqual(counts({ fetched: 4, unchanged: 4 }));
    expect(await tableId()).not.toEqual(before);
    expect(await places()).toEqual([
      ['big', 'column', false],
      ['open', 'extra', false],
      ['rate', 'column', false],
    ]);
    const stored = async (table: string) =>
      (
        await bench().ledger(
          `SELECT rate, big, open, CAST(_extra AS TEXT) AS _extra FROM ${table} ORDER BY _row, _seq`,
        )
      ).map((row) => Object.values(row));
    const texts = ['n/a', 'many', 'perhaps', null];
    const numbers = ['0.5', String(big), 'true', null];
    const number = ['1', '2', '7', null];
    const rows = [numbers, texts, ['0', null, null, '{"open":{"is":"odd"}}'], number];
    expect(await stored('news__members')).toEqual(rows);
    expect(await stored('news__members__history')).toEqual(
      expect.arrayContaining([['1e+21', '1', 'false', null]]),
    );
    expect((await read('r5', raws)).counts).toEqual(counts({ fetched: 4, unchanged: 4 }));
    expect(await stored('news__members')).toEqual(rows);

    const next = [{ ...first, rate: 'all', big: big - 1n, open: false }, ...raws.slice(1)];
    expect((await read('r6', next)).counts).toMatchObject({ updated: 1, unchanged: 3 });
    expect((await stored('news__members'))[0]).toEqual(['all', String(big - 1n), 'false', null]);
  });

  everywhere('refuses to make a text column of any other, or while another holds the connector', async () => {
    const sink = await bench().open();
    const widen = async (field: string) =>
      await sink.drift.widen({ connector: news, entity: members }, field);
    await expect(widen('rate')).rejects.toThrow('Nothing of news/members is stored');
    const lease = await sink.acquire(identity());
    await sync(sink, lease, 'r1', [{ id: '1', rate: 1, city: 'Kyiv' }]);
    await expect(widen('rate')).rejects.toMatchObject({ code: 'CONNECTOR_BUSY' });
    await lease[Symbol.asyncDispose]();
    await expect(widen('visits')).rejects.toThrow('Declare it there as "string"');
    await expect(widen('city')).rejects.toThrow('(rate), got city, which holds string values');
    await expect(widen('none')).rejects.toThrow('(rate), got "none"');
    await widen('rate');
    await expect(widen('rate')).rejects.toThrow('(there is none), got rate, which holds string values');
    expect(await sink.history.actions({ limit: 9 })).toMatchObject([
      { action: 'widen-column', connector: news, entity: members, detail: { field: 'rate' } },
    ]);
  });

  it('ends the drift of a field that the definition declares by now, without moving anything', async () => {
    const { sink, lease } = await bench().hold();
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }]);
    const column: Column = { name: 'city', type: 'string' };
    const declared = { ...membersTable, columns: [...membersTable.columns, column] };
    await sync(sink, lease, 'r2', [{ id: '1', city: 'Kyiv' }], declared);
    expect((await knownDrift(sink))?.evolved).toEqual([]);
    expect(await fields(sink)).toEqual([]);
    expect(await bench().rows(declared)).toMatchObject([{ city: 'Kyiv' }]);
  });

  everywhere('takes the column of a field that was declared once and is no more', async () => {
    const city: Column = { name: 'city', type: 'string' };
    const declared = { ...membersTable, columns: [...membersTable.columns, city] };
    const { sink, lease } = await bench().hold();
    await sync(sink, lease, 'r1', [{ id: '1', city: 'Kyiv' }], declared);
    const { evolved } = await sync(sink, lease, 'r2', [{ id: '1', city: 'Lviv' }], membersTable);
    expect(evolved).toEqual([{ ...city, isEvolved: true }]);
    expect((await sync(sink, lease, 'r3', [{ id: '1', city: 'Odesa' }])).counts).toMatchObject({
      updated: 1,
    });
    expect(await bench().rows(declared)).toMatchObject([{ city: 'Odesa' }]);
  });

  it('stores without the column in a run whose plan lacks it, and fills it in the next run that has it', async () => {
    const { sink, lease } = await bench().hold();
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
