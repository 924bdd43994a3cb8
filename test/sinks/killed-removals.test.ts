import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { instant, systemClock, type Clock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { openExistingRecords, openSink } from '../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../src/sinks/sink-access.ts';
import { dayMs, expireRequest, purgeRequest } from '../contracts/sink/fixture.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { jsonLines } from '../support/run-cli.ts';
import { killedCopies } from '../support/sinks/killed-copies.ts';
import { isLong } from '../support/trials.ts';

const connector = 'newsletter' as ConnectorName;
const [campaigns, listMembers] = ['campaigns', 'list_members'] as EntityName[] as [EntityName, EntityName];
/** In `npm test` a kill in front of one statement of so many. */
const killsAtEach = isLong ? { expiry: 1, purge: 1 } : { expiry: 5, purge: 9 };

describe.each(['sqlite', 'jsonl'] as const)('a %s sink', (type) => {
  const optionsAt = (folder: string): SinkOptions => {
    const rest = { name: 'main', durability: 'normal' } as const;
    return type === 'sqlite'
      ? { ...rest, type, path: join(folder, 'main.db') }
      : { ...rest, type, directory: join(folder, 'main') };
  };

  async function inSink<Result>(folder: string, clock: Clock, work: (sink: Sink) => Promise<Result>) {
    await using sink = await openSink(optionsAt(folder), { clock });
    return await work(sink);
  }

  async function openWorld(settings = '') {
    const world = await openCliWorld({ sink: type, settings });
    onTestFinished(() => world[Symbol.asyncDispose]());
    return world;
  }

  /** How many rows and deleted rows the ledger counts, and are read; and from where on changes are complete. */
  async function state(folder: string, entity: EntityName) {
    await using reader = await openExistingRecords(optionsAt(folder));
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
  it('removes the rest of what is too old the next time, after a kill at any step', async () => {
    const world = await openWorld(
      `    include: [campaigns]\n${type === 'sqlite' ? '    history: true\n' : ''}`,
    );
    await world.json('sync', connector);
    for (const revision of [1, 2, 3]) {
      world.moveTo(revision);
      await world.json('sync', connector, '--full', '--allow-deletes');
    }
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + 100 * dayMs };
    const before = instant(clock.now() - 90 * dayMs);
    const old = {
      deletedBefore: before,
      quarantinedBefore: before,
      filesBefore: before,
      versionsBefore: before,
    };
    const expire = async (folder: string) =>
      await inSink(
        folder,
        clock,
        async ({ purges }) => await purges.expire(connector, expireRequest(campaigns, old)),
      );
    const whole = await state(world.folder, campaigns);
    expect(whole.deleted).toBeGreaterThan(0);
    const killed = await killedCopies(
      world.folder,
      killsAtEach.expiry,
      async () => await expire(world.folder),
    );
    const after = await state(world.folder, campaigns);
    expect(after).toMatchObject({ rows: whole.rows, deleted: 0 });
    expect(after.completeAfter).toBeGreaterThan(0);
    expect(killed.length).toBeGreaterThan(3);
    const left = await Promise.all(killed.map(async (folder) => await state(folder, campaigns)));
    for (const [at, one] of left.entries()) expect([whole, after], `kill ${at}`).toContainEqual(one);
    expect(left, 'some kills come before the removal').toContainEqual(whole);
    for (const [at, folder] of killed.entries()) {
      await expire(folder);
      expect(await state(folder, campaigns), `kill ${at}`).toEqual(after);
    }
  });

  /** A synced sink, and a member of it. */
  async function synced() {
    const { cli, folder, json } = await openWorld();
    await json('sync', connector, '--select', listMembers);
    const [first] = jsonLines(await cli('export', `${connector}/${listMembers}`));
    const keyTexts = [JSON.stringify([first?.['list_id'], first?.['id']])];
    const request = purgeRequest([{ entity: listMembers, keyTexts }]);
    const purge = async (at: string) =>
      await inSink(at, systemClock, async ({ purges }) => await purges.purge(connector, request));
    return { folder, request, purge, email: String(first?.['email_address']) };
  }

  // Proves promise 21.4
  it('completes a purge with the next one after a kill at any step', async () => {
    const { folder: own, purge, email } = await synced();
    const whole = await state(own, listMembers);
    const killed = await killedCopies(own, killsAtEach.purge, async () => await purge(own));
    expect(killed.length).toBeGreaterThan(3);
    for (const [at, folder] of killed.entries()) {
      const { rows } = await state(folder, listMembers);
      expect([whole.rows, whole.rows - 1], `kill ${at}`).toContain(rows);
      expect((await purge(folder)).left).toEqual([]);
      expect(await state(folder, listMembers)).toMatchObject({ rows: whole.rows - 1, deleted: 0 });
      expect(filesWith(folder, email), `kill ${at}`).toEqual([]);
    }
  });

  it('does a purge that is asked for twice at once one time: one of the two waits or is refused', async () => {
    const { folder, request, purge, email } = await synced();
    await inSink(folder, systemClock, async ({ purges }) => {
      const ends = await Promise.allSettled([purges.purge(connector, request), purge(folder)]);
      const refused = ends.filter((end) => end.status === 'rejected');
      expect(refused.length).toBeLessThan(2);
      for (const { reason } of refused) expect(reason).toMatchObject({ code: 'CONNECTOR_BUSY' });
    });
    expect(filesWith(folder, email)).toEqual([]);
  });
});
