import { statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import { it } from '../../support/it.ts';
import { mountDisk } from '../../support/small-disk.ts';
import {
  member,
  membersTable,
  news,
  onlyPartition,
  sealed,
  type Bench,
  type SinkKind,
} from '../sink/fixture.ts';
import { benchOfTest } from '../sink/use-bench.ts';

export function fullDisk(kind: SinkKind): void {
  /** A sink on a small disk, and a run of it. */
  async function openOn(folder: string, bench: Bench) {
    const sink = await kind.open(folder, { clock: bench.clock });
    const walk = await bench.walking('r1', {}, { sink });
    const rows = async () => await kind.readRows(folder, news, membersTable);
    return { ...walk, rows, [Symbol.asyncDispose]: async () => await sink[Symbol.asyncDispose]() };
  }

  it('stops with SINK_FULL, keeps every earlier commit whole, and continues in the same process when space is free', async ({
    folder,
    skip,
  }) => {
    using disk = mountDisk(folder, '6m', skip);
    await using on = await openOn(folder, benchOfTest(kind));
    const commit = async (offset: number): Promise<unknown> => {
      const ids = Array.from({ length: 100 }, (_, index) => String(offset + index));
      const records = ids.map((id) => member(id, 'n'.repeat(2_000)));
      return await on.commit(records, { position: { kind: 'offset', offset } });
    };

    let offset = 0;
    let full: unknown = null;
    while (full === null && offset < 10_000) {
      full = await commit(offset).then(
        () => null,
        (error: unknown) => error,
      );
      offset += full === null ? 100 : 0;
    }
    expect(full).toBeInstanceOf(SyncError);
    expect(full).toMatchObject({ code: 'SINK_FULL', recovery: 'retry' });
    expect(await on.rows()).toHaveLength(offset);
    expect((await onlyPartition(on.sink, on.lease)).position).toEqual({
      kind: 'offset',
      offset: offset - 100,
    });

    await expect(commit(offset)).rejects.toThrow(/No space is left for .* \(\w+\)/);
    disk.remount('size=64m');
    await commit(offset);
    expect(await on.rows()).toHaveLength(offset + 100);
  });

  it('ends a run well on a disk that has room for its end, and none to fold the log into the file', async ({
    folder,
    skip,
  }) => {
    using _disk = mountDisk(folder, '6m', skip);
    await using on = await openOn(folder, benchOfTest(kind));
    const records = Array.from({ length: 600 }, (_, row) => member(String(row), 'n'.repeat(2_000)));
    await on.commit(records, { seal: sealed });
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(bavail * bsize - 256 * 1_024));
    const finishing = on.finish();
    // The run has ended, and the next one writes the lines.
    if (kind.options('/nowhere').type === 'jsonl') {
      await expect(finishing).rejects.toMatchObject({
        code: 'SINK_FULL',
        message: expect.stringContaining(
          'the records are stored, and the next sync writes their lines',
        ) as string,
      });
    } else await finishing;
    expect(await on.rows()).toHaveLength(600);
  });
}
