import { vi } from 'vitest';
import type * as Registry from '../../src/sinks/registry.ts';
import type { SinkOptions, SinkPlace } from '../../src/sinks/sink-access.ts';
import { delayedAccess, randomTurns } from './delayed-sink.ts';
import { startSeed } from './trials.ts';

/* Before all tests of a project: every sink that is opened in their process is one whose calls take a while. */

vi.mock('../../src/sinks/registry.ts', async (importOriginal) => {
  const registry = await importOriginal<typeof Registry>();
  const turns = randomTurns(startSeed());
  const accessSink = (sink: SinkPlace) => delayedAccess(registry.accessSink(sink), turns);
  const existing = async <Opened>(sink: SinkPlace, open: () => Promise<Opened>): Promise<Opened | null> =>
    (await accessSink(sink).isThere()) ? await open() : null;
  return {
    ...registry,
    accessSink,
    openSink: ({ durability, lockTimeoutMs, ...sink }: SinkOptions, how: object) =>
      accessSink(sink).open({
        durability,
        ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }),
        ...(how as { readonly clock: never }),
      }),
    openHistory: (sink: SinkPlace) => accessSink(sink).openHistory(),
    openExistingHistory: (sink: SinkPlace) => existing(sink, () => accessSink(sink).openHistory()),
    openExistingRecords: (sink: SinkPlace) => existing(sink, () => accessSink(sink).openRecords()),
  };
});
