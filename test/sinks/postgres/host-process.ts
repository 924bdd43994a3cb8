import { instant, systemClock } from '../../../src/core/clock.ts';
import { SyncError } from '../../../src/core/errors.ts';
import type { RunId } from '../../../src/core/names.ts';
import { ConnectorBusyError } from '../../../src/sinks/sink-errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import { identity, member, onlyPartition, page, runPlan } from '../../contracts/sink/fixture.ts';

/*
 * One of several hosts that want the same connector: waits until it gets it, then resumes the unfinished run, page
 * by page without an end, and reports to its parent every page that is stored, and why it ended. Started with the
 * sink's options as JSON and, where its clock is wrong, by how many milliseconds.
 */

const options = JSON.parse(process.argv[2] ?? '') as SinkOptions;
const aheadMs = Number(process.argv[3] ?? 0);
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
const rowsPerPage = 5;
process.on('disconnect', () => process.exit(0));

const sink = await openSink(options, { clock });
const lease = await acquire(sink);
const run = `r${lease.epoch}` as RunId;
await sink.startRun(lease, runPlan(run, { startedAt: instant(clock.now()) }));
try {
  const { id, position } = await onlyPartition(sink, lease);
  for (let index = Number(position?.['offset'] ?? 0); ; index += 1) {
    const keys = Array.from({ length: rowsPerPage }, (_, row) => String(index * rowsPerPage + row));
    const records = keys.map((key) => member(key));
    const next = { kind: 'offset', offset: index + 1 } as const;
    await sink.commit(lease, [page({ lease, run }, id, records, { position: next })]);
    process.send?.({ kind: 'stored', epoch: lease.epoch, page: index });
  }
} catch (error) {
  const code = error instanceof SyncError ? error.code : String(error);
  process.send?.({ kind: 'failed', epoch: lease.epoch, code });
}

async function acquire(opened: Sink): Promise<Lease> {
  for (;;) {
    try {
      return await opened.acquire(identity());
    } catch (error) {
      if (!(error instanceof ConnectorBusyError)) throw error;
    }
    await systemClock.sleep(20);
  }
}
