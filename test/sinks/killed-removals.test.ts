import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { instant, systemClock, type Clock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import type { ExpireRequest, PurgeRequest } from '../../src/sinks/purges.ts';
import { openExistingRecords, openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { jsonLines } from '../support/run-cli.ts';
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

describe('killed purge', () => {
  const connector = 'newsletter' as ConnectorName;
  const entity = 'list_members' as EntityName;
  /** In `npm test` a kill in front of one statement of so many. */
  const killsAtEach = isLong ? 1 : 9;

  const sinkAt = (type: 'sqlite' | 'jsonl', folder: string): SinkOptions => {
    const rest = { name: 'main', durability: 'normal' } as const;
    return type === 'sqlite'
      ? { ...rest, type, path: join(folder, 'main.db') }
      : { ...rest, type, directory: join(folder, 'main') };
  };

  describe.each(['sqlite', 'jsonl'] as const)('a purge in a %s sink', (type) => {
    /** A synced sink, and a member of it. */
    async function synced() {
      const world = await openCliWorld({ sink: type });
      onTestFinished(() => world[Symbol.asyncDispose]());
      await world.json('sync', 'newsletter', '--select', 'list_members');
      const [first] = jsonLines(await world.cli('export', 'newsletter/list_members'));
      const request: PurgeRequest = {
        of: [{ entity, keyTexts: [JSON.stringify([first?.['list_id'], first?.['id']])] }],
        canReturn: false,
        targets: [],
        removeFile: () => Promise.resolve(),
        signal: new AbortController().signal,
      };
      return { world, request, email: String(first?.['email_address']) };
    }

    async function purge(folder: string, request: PurgeRequest) {
      await using sink = await openSink(sinkAt(type, folder), { clock: systemClock });
      return await sink.purges.purge(connector, request);
    }

    /** How many rows there are, as the ledger counts them and as they are read. */
    async function rows(folder: string): Promise<readonly [counted: number, read: number]> {
      await using reader = await openExistingRecords(sinkAt(type, folder));
      const [status] = (await reader?.history.connectors([connector])) ?? [];
      const table = (await reader?.table(connector, entity)) ?? null;
      let read = 0;
      if (reader !== null && table !== null) {
        for await (const batch of reader.changes(connector, table, 0)) read += batch.length;
      }
      const found = status?.entities.find((one) => one.entity === entity);
      return [(found?.rows ?? 0) + (found?.deleted ?? 0), read];
    }

    // Proves promise 21.4
    it('is completed by the next one after a kill at any step', async () => {
      const { world, request, email } = await synced();
      const [before] = await rows(world.folder);
      const killed = await killedCopies(
        world.folder,
        killsAtEach,
        async () => await purge(world.folder, request),
      );
      expect(killed.length).toBeGreaterThan(3);
      for (const [at, folder] of killed.entries()) {
        const [counted, read] = await rows(folder);
        expect([before, before - 1], `kill ${at}`).toContain(counted);
        expect(read, `kill ${at}`).toBe(counted);
        expect((await purge(folder, request)).left).toEqual([]);
        expect(await rows(folder)).toEqual([before - 1, before - 1]);
        expect(filesWith(folder, email), `kill ${at}`).toEqual([]);
      }
    });

    it('twice at once is done once: one of the two waits or is refused', async () => {
      const { world, request, email } = await synced();
      await using sink = await openSink(sinkAt(type, world.folder), { clock: systemClock });
      const ends = await Promise.allSettled([
        sink.purges.purge(connector, request),
        purge(world.folder, request),
      ]);
      const refused = ends.filter((end) => end.status === 'rejected');
      expect(refused.length).toBeLessThan(2);
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'CONNECTOR_BUSY' });
      expect(filesWith(world.folder, email)).toEqual([]);
    });
  });
});
