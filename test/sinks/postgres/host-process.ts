import { instant, systemClock } from '../../../src/core/clock.ts';
import { SyncError } from '../../../src/core/errors.ts';
import type { RunId } from '../../../src/core/names.ts';
import { ConnectorBusyError } from '../../../src/sinks/acquire-errors.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { identity, member, page, runPlan, sealed, type Started } from '../../contracts/sink/fixture.ts';

/*
 * One of several hosts that want the same connector: waits until it gets it, then resumes the unfinished run, page
 * by page, and reports to its parent every page that is stored, and why it ended. Started with the sink's options as
 * JSON, the number of pages and, where its clock is wrong, by how many milliseconds.
 */

const options = JSON.parse(process.argv[2] ?? '') as SinkOptions;
const pages = Number(process.argv[3]);
const aheadMs = Number(process.argv[4] ?? 0);
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
const rowsPerPage = 5;
process.on('disconnect', () => process.exit(0));

const sink = await openSink(options, { clock });
const lease = await acquire(sink);
const run = `r${lease.epoch}` as RunId;
const started: Started = { lease, run };
await sink.startRun(lease, runPlan(run, { startedAt: instant(clock.now()) }));
try {
  for (;;) {
    const [partition] = await sink.nextPartitions(lease, 1);
    if (partition === undefined) break;
    await walk(partition);
  }
  process.send?.({ kind: 'done', epoch: lease.epoch });
} catch (error) {
  const code = error instanceof SyncError ? error.code : String(error);
  process.send?.({ kind: 'failed', epoch: lease.epoch, code });
}

async function acquire(opened: Sink): Promise<Started['lease']> {
  for (;;) {
    try {
      return await opened.acquire(identity());
    } catch (error) {
      if (!(error instanceof ConnectorBusyError)) throw error;
    }
    await systemClock.sleep(20);
  }
}

async function walk({ id, position }: Partition): Promise<void> {
  const first = Number(position?.['offset'] ?? 0);
  for (let index = first; index < pages; index += 1) {
    const keys = Array.from({ length: rowsPerPage }, (_, row) => String(index * rowsPerPage + row));
    const records = keys.map((key) => member(key));
    const seal = index === pages - 1 ? sealed : null;
    await sink.commit(lease, [
      page(started, id, records, { position: { kind: 'offset', offset: index + 1 }, seal }),
    ]);
    process.send?.({ kind: 'stored', epoch: lease.epoch, page: index });
  }
}
