import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import type { PurgeRequest } from '../../src/sinks/purges.ts';
import { openExistingRecords, openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { jsonLines } from '../support/run-cli.ts';
import { killedCopies } from '../support/sinks/killed-copies.ts';
import { isLong } from '../support/trials.ts';

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
