import { execFileSync } from 'node:child_process';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
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
} from '../sink/fixture.ts';
import { useBench } from '../sink/use-bench.ts';

/** A disk of its own for one test; false where this machine does not let us have one. */
export function mountDisk(folder: string, size: string): boolean {
  mkdirSync(folder, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' });
    return true;
  } catch {
    // Mounting needs root and a kernel that allows it.
    return false;
  }
}

export function fullDisk(kind: SinkKind): void {
  const bench = useBench(kind);
  let sink: Sink | null = null;
  let mounted: string | null = null;

  afterEach(async () => {
    await sink?.[Symbol.asyncDispose]();
    if (mounted !== null) execFileSync('umount', [mounted]);
    sink = null;
    mounted = null;
  });

  it('stops with SINK_FULL, keeps every earlier commit whole, and continues in the same process when space is free', async ({
    skip,
  }) => {
    const folder = join(bench().folder, 'disk');
    skip(!mountDisk(folder, '6m'), 'a tmpfs cannot be mounted here');
    mounted = folder;
    sink = await kind.open(folder, { clock: bench().clock });
    const lease = await sink.acquire(identity());
    const run = 'r1' as Started['run'];
    await sink.startRun(lease, bench().plan(run));
    const { id } = await onlyPartition(sink, lease);
    const commit = async (offset: number): Promise<unknown> => {
      const records = Array.from({ length: 100 }, (_, index) =>
        member(String(offset + index), 'n'.repeat(2_000)),
      );
      return sink?.commit(lease, [
        page({ lease, run }, id, records, { position: { kind: 'offset', offset } }),
      ]);
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
    expect(await kind.readRows(folder, news, membersTable)).toHaveLength(offset);
    expect((await onlyPartition(sink, lease)).position).toEqual({ kind: 'offset', offset: offset - 100 });

    await expect(commit(offset)).rejects.toThrow(/No space is left for .*; .* free on its disk\)/);
    execFileSync('mount', ['-o', 'remount,size=64m', folder]);
    await commit(offset);
    expect(await kind.readRows(folder, news, membersTable)).toHaveLength(offset + 100);
  });
  it('ends a run well on a disk that has room for its end, and none to fold the log into the file', async ({
    skip,
  }) => {
    const folder = join(bench().folder, 'disk');
    skip(!mountDisk(folder, '6m'), 'a tmpfs cannot be mounted here');
    mounted = folder;
    sink = await kind.open(folder, { clock: bench().clock });
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const records = Array.from({ length: 600 }, (_, row) => member(String(row), 'n'.repeat(2_000)));
    await sink.commit(started.lease, [page(started, id, records, { seal: sealed })]);
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(bavail * bsize - 256 * 1_024));
    const counts = { fetched: 600, inserted: 600 };
    const finishing = sink.finish(
      started.lease,
      started.run,
      report(started, { entities: [entityReport(members, counts)] }),
    );
    // The run has ended, and the next one writes the lines.
    if (kind.options('/nowhere').type === 'jsonl') {
      await expect(finishing).rejects.toMatchObject({
        code: 'SINK_FULL',
        message: expect.stringContaining(
          'the records are stored, and the next sync writes their lines',
        ) as string,
      });
    } else await finishing;
    expect(await kind.readRows(folder, news, membersTable)).toHaveLength(600);
  });
}
