import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { PreparedRecord, RecordFile } from '../../../src/core/records.ts';
import type { FileFailure, StoredFile, WantedFile } from '../../../src/sinks/files.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  hourMs,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  report,
  sealed,
  start,
  type SinkKind,
  type Started,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

const photo = (version: string, change: Partial<RecordFile> = {}): RecordFile => ({
  params: { member_id: 1 },
  version,
  name: 'photo.jpg',
  contentType: 'image/jpeg',
  size: 3,
  ...change,
});

const withFile = (id: string, file: RecordFile | null, name = 'Ada'): PreparedRecord =>
  member(id, name, { file });

const stored = (file: string): StoredFile => ({
  file,
  bytes: 3,
  sha256: 'ab',
  contentType: 'image/jpeg',
});

const failure: FileFailure = {
  code: 'NOT_FOUND',
  recovery: 'skip-partition',
  message: 'gone',
  at: instant(start),
};

/** What is known of the files of records: `Sink.files`. */
export function files(kind: SinkKind): void {
  const bench = useBench(kind);

  /** Another full walk, in a run of its own, that shows these records. */
  async function shown(
    sink: Sink,
    run: string,
    records: readonly PreparedRecord[],
    absence: 'nothing' | null = null,
  ): Promise<Started> {
    const started = await bench().begin(sink, run, { isFull: true });
    const { id } = await onlyPartition(sink, started.lease);
    const seal = { ...sealed, absence };
    await sink.commit(started.lease, [page(started, id, records, { seal })]);
    return started;
  }

  async function ended(sink: Sink, started: Started): Promise<void> {
    await sink
      .finish(started.lease, started.run, report(started, { outcome: 'failed' }))
      .catch(() => undefined);
    await started.lease[Symbol.asyncDispose]();
    bench().clock.advance(hourMs);
  }

  const wanted = (sink: Sink, { lease, run }: Started): Promise<readonly WantedFile[]> =>
    sink.files.next(lease, run, members, 10);
  const keysOf = (found: readonly WantedFile[]): readonly string[] => found.map(({ keyText }) => keyText);
  // Proves promise 15
  it('are wanted from the commit on that stores their records, with all that asks for them', async () => {
    const sink = await bench().open();
    const started = await shown(sink, 'r1', [withFile('1', photo('v1')), withFile('2', null), member('3')]);
    expect(await wanted(sink, started)).toEqual([
      { id: 1, entity: members, keyText: '["a","1"]', ...photo('v1') },
    ]);
    expect(await sink.files.left(started.lease, started.run, [members])).toEqual([
      { entity: members, files: 1 },
    ]);
  });

  // Proves promise 15
  it('are not noted where the commit of their records fails', async () => {
    const { sink, started, id } = await bench().walking();
    const wrong = page(started, id, [withFile('1', photo('v1'))], { fetched: 7 });
    await expect(sink.commit(started.lease, [wrong])).rejects.toMatchObject({ code: 'ACCOUNTING' });
    expect(await wanted(sink, started)).toEqual([]);
    expect(await bench().rows()).toEqual([]);
  });

  it('are wanted again when their version comes back after another one was wanted', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    await sink.files.stored(first.lease, first.run, one, stored('x-photo.jpg'));
    await ended(sink, first);
    // A run that is killed after it has given the bytes of v2 the name that those of v1 had.
    await ended(sink, await shown(sink, 'r2', [withFile('1', photo('v2'))]));

    const third = await shown(sink, 'r3', [withFile('1', photo('v1'))]);
    expect(await wanted(sink, third)).toMatchObject([{ version: 'v1' }]);
  });

  it('are wanted no more once they are stored, until their version is another one', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    await sink.files.stored(first.lease, first.run, one, stored('x-photo.jpg'));
    expect(await wanted(sink, first)).toEqual([]);
    await ended(sink, first);

    const second = await shown(sink, 'r2', [withFile('1', photo('v1', { name: 'other.jpg' }), 'Bea')]);
    expect(await wanted(sink, second)).toEqual([]);
    await ended(sink, second);

    const third = await shown(sink, 'r3', [withFile('1', photo('v2', { name: 'other.jpg' }))]);
    const [newer] = await wanted(sink, third);
    if (newer === undefined) throw new Error('a file should be wanted');
    expect(newer).toMatchObject({ version: 'v2', name: 'other.jpg' });
    await sink.files.stored(third.lease, third.run, newer, stored('x-other.jpg'));
    const names = ['x-photo.jpg', 'x-other.jpg', 'x-never-noted.jpg'];
    expect(await sink.files.unknown(third.lease, third.run, members, names)).toEqual(['x-never-noted.jpg']);
    const replaced = await sink.files.replaced(third.lease, third.run, 10);
    expect(replaced).toEqual([
      { id: newer.id, entity: members, file: 'x-photo.jpg', current: 'x-other.jpg' },
    ]);
    await sink.files.removed(third.lease, third.run, replaced);
    expect(await sink.files.replaced(third.lease, third.run, 10)).toEqual([]);
    expect((await sink.history.connectors())[0]?.entities).toContainEqual(
      expect.objectContaining({ entity: members, files: { stored: 1, bytes: 3, wanted: 0, failed: 0 } }),
    );
  });

  it('cost no write where nothing about them has changed', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    await ended(sink, first);
    await kind.refuseUpdates(bench().folder, '_sync_downloads');
    const second = await shown(sink, 'r2', [withFile('1', photo('v1'))]);
    expect(await wanted(sink, second)).toHaveLength(1);
  });

  it('that failed are left out of this run, wanted by the next, and come after what was never tried', async () => {
    const sink = await bench().open();
    const records = ['1', '2', '3'].map((id) => withFile(id, photo('v1')));
    const first = await shown(sink, 'r1', records);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    await sink.files.setAside(first.lease, first.run, one, failure);
    expect(keysOf(await wanted(sink, first))).toEqual(['["a","2"]', '["a","3"]']);
    expect(await sink.history.fileFailures(news, 5)).toEqual([
      { entity: members, params: { member_id: 1 }, failure },
    ]);
    await ended(sink, first);

    const second = await shown(sink, 'r2', records);
    expect(keysOf(await wanted(sink, second))).toEqual(['["a","2"]', '["a","3"]', '["a","1"]']);
    await ended(sink, second);

    // Another version has not failed yet.
    const third = await shown(sink, 'r3', [withFile('1', photo('v2'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","1"]', '["a","2"]', '["a","3"]']);
    expect(await sink.history.fileFailures(news, 5)).toEqual([]);
  });

  // Proves promise 15
  it('of tombstoned records are not wanted, and are again when these come back', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1')), withFile('2', photo('v1'))]);
    await ended(sink, first);
    const second = await shown(sink, 'r2', [withFile('1', photo('v1'))], 'nothing');
    await sink.deletes.sweep(second.lease, second.run, 100);
    await sink.deletes.tombstone(second.lease, second.run, members, 'all', 100);
    expect(keysOf(await wanted(sink, second))).toEqual(['["a","1"]']);
    await ended(sink, second);
    const third = await shown(sink, 'r3', [withFile('1', null), withFile('2', photo('v1'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","2"]']);
  });

  it('of a record that is taken back are wanted again', async () => {
    const sink = await bench().open();
    const all = { entity: members, after: 0, limit: 10 };
    const started = await shown(sink, 'r0', [withFile('1', photo('v1'))]);
    await ended(sink, started);
    const first = await shown(sink, 'r1', []);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, '["a","1"]');
    expect(await wanted(sink, first)).toEqual([]);
    await sink.repair.undo(first.lease, first.run, first.run, all);
    expect(keysOf(await wanted(sink, first))).toEqual(['["a","1"]']);
    await ended(sink, first);

    // It had lost its file before.
    const second = await shown(sink, 'r2', [withFile('1', null)]);
    await sink.repair.tombstoneRecord(second.lease, second.run, members, '["a","1"]');
    await sink.repair.undo(second.lease, second.run, second.run, all);
    expect(await wanted(sink, second)).toEqual([]);
    await ended(sink, second);

    // And has one again.
    const third = await shown(sink, 'r3', [withFile('1', photo('v2'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","1"]']);
  });

  it('are forgotten with the records of their entity, and kept by a reset without data', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    await sink.files.stored(first.lease, first.run, one, stored('x'));
    await ended(sink, first);
    const scope = { entity: members, tables: [membersTable], now: instant(bench().clock.now()) };
    const known = async (): Promise<unknown> =>
      (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members)?.files ?? null;
    await sink.repair.reset(news, { ...scope, withData: false });
    expect(await known()).toMatchObject({ stored: 1, wanted: 0 });
    await sink.repair.reset(news, { ...scope, withData: true });
    expect(await known()).toBeNull();
  });

  it('are refused to a holder that was overtaken', async () => {
    const sink = await bench().open();
    const started = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    const [one] = await wanted(sink, started);
    if (one === undefined) throw new Error('a file should be wanted');
    await bench().overtake();
    await expect(sink.files.stored(started.lease, started.run, one, stored('x'))).rejects.toMatchObject({
      code: 'FENCED',
    });
  });
}
