import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { instant, systemClock, type Clock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import type { ExpireRequest } from '../../src/sinks/purges.ts';
import { openExistingRecords, openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { killedCopies } from '../support/sinks/killed-copies.ts';
import { isLong } from '../support/trials.ts';

const connector = 'newsletter' as ConnectorName;
const entity = 'campaigns' as EntityName;
const dayMs = 24 * 60 * 60 * 1_000;
/** In `npm test` a kill in front of one statement of so many. */
const killsAtEach = isLong ? 1 : 5;

const clock: Clock = { ...systemClock, now: () => systemClock.now() + 100 * dayMs };

const request = (): ExpireRequest => {
  const before = instant(clock.now() - 90 * dayMs);
  return {
    entities: [
      {
        entity,
        deletedBefore: before,
        publishedThrough: Number.MAX_SAFE_INTEGER,
        quarantinedBefore: before,
        filesBefore: before,
        versionsBefore: before,
        withheld: 0,
      },
    ],
    isAsked: true,
    removeFile: () => Promise.resolve(),
    signal: new AbortController().signal,
  };
};

describe.each(['sqlite', 'jsonl'] as const)('removing what is too old from a %s sink', (type) => {
  const sinkAt = (folder: string): SinkOptions => {
    const rest = { name: 'main', durability: 'normal' } as const;
    return type === 'sqlite'
      ? { ...rest, type, path: join(folder, 'main.db') }
      : { ...rest, type, directory: join(folder, 'main') };
  };

  async function expire(folder: string): Promise<void> {
    await using sink = await openSink(sinkAt(folder), { clock });
    await sink.purges.expire(connector, request());
  }

  /** How many rows and deleted rows the ledger counts, and are read; and from where on changes are complete. */
  async function state(folder: string) {
    await using reader = await openExistingRecords(sinkAt(folder));
    if (reader === null) throw new Error('There is a sink');
    const [status] = await reader.history.connectors([connector]);
    const counted = status?.entities.find((one) => one.entity === entity);
    const table = await reader.table(connector, entity);
    const read = { rows: 0, deleted: 0 };
    for await (const batch of table === null ? [] : reader.changes(connector, table, 0)) {
      for (const { isDeleted } of batch) read[isDeleted ? 'deleted' : 'rows'] += 1;
    }
    expect({ rows: counted?.rows, deleted: counted?.deleted }).toEqual(read);
    return { ...read, completeAfter: await reader.history.completeAfter(connector, entity) };
  }

  // Proves promise 21.5
  it('is completed by the next time after a kill at any step', async () => {
    const history = type === 'sqlite' ? '    history: true\n' : '';
    const world = await openCliWorld({ sink: type, settings: `    include: [campaigns]\n${history}` });
    onTestFinished(() => world[Symbol.asyncDispose]());
    await world.json('sync', 'newsletter');
    for (const revision of [1, 2, 3]) {
      world.moveTo(revision);
      await world.json('sync', 'newsletter', '--full', '--allow-deletes');
    }
    const before = await state(world.folder);
    expect(before.deleted).toBeGreaterThan(0);
    const killed = await killedCopies(world.folder, killsAtEach, async () => await expire(world.folder));
    const after = await state(world.folder);
    expect(after).toMatchObject({ rows: before.rows, deleted: 0 });
    expect(after.completeAfter).toBeGreaterThan(0);
    expect(killed.length).toBeGreaterThan(3);
    let whole = 0;
    for (const [at, folder] of killed.entries()) {
      const left = await state(folder);
      expect([before, after], `kill ${at}`).toContainEqual(left);
      whole += left.deleted === 0 ? 0 : 1;
      await expire(folder);
      expect(await state(folder), `kill ${at}`).toEqual(after);
    }
    expect(whole, 'some kills come before the removal').toBeGreaterThan(0);
  });
});
