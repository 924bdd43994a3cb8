import { afterEach, describe, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  hourMs,
  identity,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  record,
  type SinkKind,
} from '../../contracts/sink/fixture.ts';
import { storedState } from '../../support/histories/stored-state.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import {
  beginAnother,
  copyNews,
  fillWithNews,
  spelledRows,
  sqliteKind,
  stoppingSink,
} from '../../support/sinks/copying.ts';

const postgres = await postgresSinkKind();
const ways: readonly (readonly [string, SinkKind, SinkKind])[] = [
  ['from SQLite to PostgreSQL', sqliteKind, postgres],
  ['from PostgreSQL to SQLite', postgres, sqliteKind],
];

const open: Bench[] = [];
afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
});

function begin(kind: SinkKind): Bench {
  const bench = new Bench(kind);
  open.push(bench);
  return bench;
}

describe.each(ways)('a copy %s', (_way, ofSource, ofTarget) => {
  it('resumes wherever it was broken off, is used for nothing before it is complete, and leaves the source as it was', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 230, seededRandom(7));
    await beginAnother(to);
    const [source, target] = [await from.open(), await to.open()];
    const before = await storedState(from);
    const cut = new Error('cut');
    let attempts = 0;
    for (let at = 1; ; at += 1) {
      const end = await copyNews(source, stoppingSink(target, at, cut), from).catch(
        (error: unknown) => error,
      );
      attempts = at;
      if (end !== cut) {
        expect(end).toMatchObject({ state: 'resumed', rows: 230, entities: 2, isPaused: true });
        break;
      }
      const unfinished = await target.history.unfinishedCopy(news);
      if (unfinished === null) break;
      expect(unfinished).toMatchObject({ connector: news, from: 'warehouse', to: 'pg' });
      const refused = { code: 'COPY_UNFINISHED', recovery: 'stop' };
      await expect(target.acquire(identity())).rejects.toMatchObject(refused);
      await expect(target.copies.openSource(news, identity().holder)).rejects.toMatchObject(refused);
      const what = { entity: null, tables: [], withData: true, now: instant(to.clock.now()) };
      await expect(target.repair.reset(news, what)).rejects.toMatchObject(refused);
      expect((await target.history.connectors()).map(({ connector }) => connector)).toEqual(['another']);
    }
    expect(attempts).toBeGreaterThan(10);
    expect(await storedState(from)).toEqual(before);
    expect(await storedState(to)).toEqual(before);
    expect(await target.history.pause(news)).toEqual(await source.history.pause(news));
    expect(await copyNews(source, target, from)).toMatchObject({ state: 'done', rows: 230 });
  });

  it('goes on with change numbers above all that the source has given, and resumes the run that was killed there', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 20, seededRandom(8));
    const [source, target] = [await from.open(), await to.open()];
    const { newestSeq } = await copyNews(source, target, from);
    to.clock.advance(1_000);
    const lease = await target.acquire(identity());
    const started = await target.startRun(lease, to.plan('r3', { isFull: true }));
    expect(started.continues).toBe('r2');
    const { id } = await onlyPartition(target, lease);
    const added = record(membersTable, { list_id: 'a', id: 'added' });
    await target.commit(lease, [page({ lease, run: started.run }, id, [added])]);
    const [newest] = await to.ledger('SELECT id, _seq FROM news__members ORDER BY _seq DESC LIMIT 1');
    expect(newest).toMatchObject({ id: 'added' });
    expect(Number(newest?.['_seq'])).toBeGreaterThan(newestSeq);
    expect(newestSeq).toBeGreaterThanOrEqual(20);
  });

  it('begins again where the source was synced since it was broken off', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 120, seededRandom(9));
    const [source, target] = [await from.open(), await to.open()];
    const cut = new Error('cut');
    await expect(copyNews(source, stoppingSink(target, 3, cut), from)).rejects.toBe(cut);
    from.clock.advance(hourMs);
    const started = await from.begin(source, 'r3', { isFull: true });
    const { id } = await onlyPartition(source, started.lease);
    const changed = record(membersTable, { list_id: 'a', id: 'later' });
    await source.commit(started.lease, [page(started, id, [changed])]);
    await started.lease[Symbol.asyncDispose]();
    expect(await copyNews(source, target, from)).toMatchObject({ state: 'begun', rows: 121 });
    expect(await storedState(to)).toEqual(await storedState(from));
  });

  it('is refused while a run has the connector in either sink, and keeps runs out of both', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 5, seededRandom(10));
    const [source, target] = [await from.open(), await to.open()];
    const busy = { code: 'CONNECTOR_BUSY' };
    for (const sink of [source, target]) {
      const lease = await sink.acquire(identity());
      await expect(copyNews(source, target, from)).rejects.toMatchObject(busy);
      await lease[Symbol.asyncDispose]();
    }
    // As a sync would have it that was to begin in an empty sink.
    await target.repair.reset(news, {
      entity: null,
      tables: [],
      withData: true,
      now: instant(to.clock.now()),
    });
    const [other, another] = [await from.open(), await to.open()];
    const holder = { ...identity().holder, command: 'connector-sync copy news' };
    await using reading = await source.copies.openSource(news, holder);
    await expect(other.acquire(identity())).rejects.toMatchObject({ ...busy, holder });
    await using writing = await target.copies.openTarget(reading.connector, { from: 'a', to: 'b', holder });
    await expect(another.acquire(identity())).rejects.toMatchObject({ ...busy, holder });
    expect(writing.state).toBe('begun');
  });

  it('is refused where the target holds the connector, and changes nothing there', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 5, seededRandom(11));
    await fillWithNews(to, 7, seededRandom(12));
    const [source, target] = [await from.open(), await to.open()];
    const before = await storedState(to);
    await expect(copyNews(source, target, from)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('Sink pg holds connector "news" already') as string,
    });
    expect(await storedState(to)).toEqual(before);
  });

  it('leaves nothing of an unfinished copy that is discarded, and no finished one is', async () => {
    const [from, to] = [begin(ofSource), begin(ofTarget)];
    await fillWithNews(from, 120, seededRandom(13));
    await beginAnother(to);
    const [source, target] = [await from.open(), await to.open()];
    const before = await to.kind.contents(to.folder, []);
    const { holder } = identity();
    expect(await target.copies.discard(news, holder)).toBe(false);
    for (const at of [2, 6, 14]) {
      await expect(copyNews(source, stoppingSink(target, at, new Error('cut')), from)).rejects.toThrow('cut');
      expect(await target.copies.discard(news, holder)).toBe(true);
      expect(withoutSequences(await to.kind.contents(to.folder, []))).toEqual(withoutSequences(before));
    }
    await copyNews(source, target, from);
    expect(await target.copies.discard(news, holder)).toBe(false);
    expect(await storedState(to)).toEqual(await storedState(from));
  });
});

/** Numbers that are given once, and passed over where they are not used. */
function withoutSequences(contents: readonly string[]): readonly string[] {
  return contents.filter((text) => !text.startsWith('sqlite_sequence'));
}

describe('a copied record', () => {
  it('is the same to the bit after it was in PostgreSQL', async () => {
    const [own, moved, back] = [begin(sqliteKind), begin(postgres), begin(sqliteKind)];
    const sink = await own.open();
    const started = await own.begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const values = [
      { name: 'a\u0000b\uE000c\uE0000\uE0001\n\u{1F600}\uFFFF', visits: 9_223_372_036_854_775_807n },
      { name: '', visits: -9_223_372_036_854_775_808n, score: 5e-324, vip: 0 },
      { score: 1.797_693_134_862_315_7e308, vip: 1, anything: '{"a":1,"a":2,"odd":"\\ud800\\u0000"}' },
      { score: 0.1, address: '{ "z": 1e400,\n "b": 12345678901234567890.10 }', tags: '["\uE000",null]' },
    ];
    const records = values.map((one, index) =>
      record(
        membersTable,
        { list_id: `l\0${index}`, id: `'"\\${index}`, ...one },
        {
          extra: '{"__proto__":1,"_seq":"theirs","big":12345678901234567890,"odd":"\\udfff"}',
          volatileHash: index === 0 ? 'f'.repeat(32) : null,
        },
      ),
    );
    await sink.commit(started.lease, [page(started, id, records)]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, records[2]?.keyText ?? '');
    await started.lease[Symbol.asyncDispose]();
    const between = await moved.open();
    await copyNews(sink, between, own);
    await copyNews(between, await back.open(), own);
    const spelled = await spelledRows(own);
    expect(spelled).toHaveLength(4);
    expect(await spelledRows(back)).toEqual(spelled);
  });
});
