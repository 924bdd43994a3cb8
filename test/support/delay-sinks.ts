import { vi } from 'vitest';
import { NoSinkYetError } from '../../src/sinks/acquire-errors.ts';
import type * as Registry from '../../src/sinks/registry.ts';
import type { OpenHow, SinkOptions, SinkPlace } from '../../src/sinks/sink-access.ts';
import { delayedAccess, randomTurns } from './delayed-sink.ts';
import { startSeed } from './trials.ts';

/*
 * Before all tests of a project: every sink that is opened in their process is one whose calls take a while, and so
 * does each statement of its database.
 */

vi.mock('../../src/sinks/registry.ts', async (importOriginal) => {
  const registry = await importOriginal<typeof Registry>();
  const turns = randomTurns(startSeed());
  const accessSink = (sink: SinkPlace) => {
    const access = registry.accessSink(sink);
    const open = async (how: OpenHow) => await access.open({ ...how, delay: turns });
    return delayedAccess({ ...access, open }, turns);
  };
  const existing = async <Opened>(opening: Promise<Opened>): Promise<Opened | null> =>
    await opening.catch((error: unknown) => {
      if (error instanceof NoSinkYetError) return null;
      throw error;
    });
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
    openExistingHistory: (sink: SinkPlace) => existing(accessSink(sink).openHistory()),
    openExistingRecords: (sink: SinkPlace) => existing(accessSink(sink).openRecords()),
  };
});
