import type { RunId } from '../../../src/core/names.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import { identity, member, onlyPartition, page, runPlan } from './fixture.ts';

/**
 * Another process that holds the connector, has committed one page, says so, and lives until it is killed.
 * Started with the sink's options as JSON.
 */
const options = JSON.parse(process.argv[2] ?? '') as SinkOptions;
const sink = await openSink(options, { clock: systemClock });
const lease = await sink.acquire(
  identity({
    holder: {
      pid: process.pid,
      host: 'elsewhere',
      command: 'connector-sync worker',
      since: '2026-03-01T09:00:00.000Z',
    },
  }),
);
const run = 'r1' as RunId;
await sink.startRun(lease, runPlan(run, { startedAt: '2026-03-01T09:00:00.000Z' }));
const { id } = await onlyPartition(sink, lease);
await sink.commit(lease, [page({ lease, run }, id, [member('1'), member('2')])]);
// Nothing here refers to the lease now: collected garbage must not free what it holds.
setImmediate(() => {
  for (let round = 0; round < 5; round += 1) globalThis.gc?.();
  setImmediate(() => process.send?.('holding'));
});
// The channel to the parent keeps this process alive; when the parent goes, so does this one.
process.on('disconnect', () => process.exit(0));
