import { expect } from 'vitest';
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
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
  hourMs,
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
import type { Bench } from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

export const drifted = (field: string, change: Partial<FieldDrift> = {}): FieldDrift => ({
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

/** What runs read, and what is known of their fields then. */
export function driftOf(bench: () => Bench) {
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
    how: {
      readonly table?: EntityTable | undefined;
      readonly isEvolving: boolean;
      readonly plan?: Partial<RunPlan>;
    },
  ): Promise<{ readonly counts: PageCounts | undefined; readonly evolved: readonly Column[] }> {
    const started: Started = { lease, run: run as RunId };
    const table = how.table ?? withEvolved(membersTable, (await knownDrift(sink)) ?? { evolved: [] });
    bench().clock.advance(hourMs);
    await sink.startRun(lease, bench().plan(run, { tables: [table], ...how.plan }));
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

  return { fields, knownDrift, sync, readAndEvolve };
}

export function drifting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const { fields, knownDrift, sync, readAndEvolve } = driftOf(bench);

  // Proves promise 7.2
  it('reports each undeclared and misfitting field with its types, and when it came first', async () => {
    const { sink, lease } = await bench().hold();
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
