import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import type { RunId } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { EntityMasking } from '../../../src/sinks/masks.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  entityReport,
  identity,
  manualClock,
  member,
  members,
  news,
  onlyPartition,
  page,
  report,
  runPlan,
} from '../../contracts/sink/fixture.ts';
import { it } from '../../support/it.ts';

let folder = '';
let sink: Sink;
it.beforeEach(async ({ folder: made }) => {
  folder = made;
  const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
  sink = await openSink(options, { clock: manualClock() });
});
afterEach(async () => await sink[Symbol.asyncDispose]());

const fileNames = (): readonly string[] => {
  const directory = join(folder, 'news', members);
  return existsSync(directory) ? readdirSync(directory).sort() : [];
};
const file = (name = '000000000001.jsonl'): string => join(folder, 'news', members, name);

async function ended(
  run: string,
  records: readonly PreparedRecord[],
  change: Partial<RunPlan> = {},
): Promise<void> {
  await using lease = await sink.acquire(identity());
  const started = { lease, run: run as RunId };
  await sink.startRun(lease, runPlan(run, change));
  const { id } = await onlyPartition(sink, lease);
  await sink.commit(lease, [page(started, id, records)]);
  const stored = { fetched: records.length, inserted: records.length };
  const entities = records.length === 0 ? [] : [entityReport(members, stored)];
  await sink.finish(lease, started.run, report(started, { entities }));
}

const { signal } = new AbortController();
const purge = async (keyText: string) =>
  await sink.purges.purge(news, {
    of: [{ entity: members, keyTexts: [keyText] }],
    canReturn: true,
    targets: [],
    removeFile: () => Promise.resolve(),
    signal,
  });
const whole = { entity: null, tables: [], withData: true, now: '2026-03-02T10:00:00.000Z' };

// Proves promise 21.1
it.each([
  {
    what: 'a purge',
    erase: async (): Promise<unknown> => await purge(member('1').keyText),
    left: ['000000000001.jsonl', 'notes.txt'],
  },
  {
    what: 'a reset of the data',
    erase: async (): Promise<unknown> => await sink.repair.reset(news, whole),
    left: ['notes.txt'],
  },
  {
    what: 'a removal of the connector',
    erase: async (): Promise<unknown> => {
      await using removal = await sink.repair.remove(news, identity().holder);
      while ((await removal.dropSome()) !== null);
      return await removal.finish();
    },
    left: ['notes.txt'],
  },
])('files that the ledger does not list go with $what, too', async ({ erase, left }) => {
  await ended('r1', [member('1'), member('2')]);
  for (const name of ['000000000007.jsonl', '000000000008.jsonl.unlisted', 'notes.txt']) {
    writeFileSync(file(name), '{"id":"1"}\n');
  }
  mkdirSync(join(folder, 'other', members), { recursive: true });
  writeFileSync(join(folder, 'other', members, '000000000007.jsonl.unlisted'), '{"id":"1"}\n');
  await erase();
  expect(fileNames()).toEqual(left);
  expect(readdirSync(join(folder, 'other', members))).toHaveLength(1);
});

// Proves promise 1.4
it('a purge does not take a damaged file for a sound one', async () => {
  await ended('r1', [member('1'), member('2')]);
  for (const damage of ['"id":"7"', '"id";"2"']) {
    const damaged = readFileSync(file(), 'utf8').replace(
      /"id".{4}(?=,"name":"Ada","visits":null.*\n$)/,
      damage,
    );
    writeFileSync(file(), damaged);
    await expect(purge(member('1').keyText)).rejects.toMatchObject({
      code: 'SINK_DAMAGED',
      context: { file: file(), files: 1 },
    });
    expect(readFileSync(file(), 'utf8')).toBe(damaged);
  }
  await using lease = await sink.acquire(identity());
  expect(lease.connector).toBe(news);
});

const hashesIds: EntityMasking = {
  entity: members,
  of: members,
  row: ({ id = null, ...row }) => ({
    ...row,
    id: `hmac-00000000-${hash('sha256', JSON.stringify(id), 'hex')}`,
  }),
  record: (value) => value,
  cells: () => null,
  file: (said) => said,
  hidesVersions: false,
};

// Proves promise 10.6
it('lines of an entity whose key a mask covers go with it, also after the removal was broken off', async () => {
  await ended('r1', [member('1'), member('2')]);
  const unlisted = file('000000000008.jsonl.unlisted');
  // Cannot be removed as a file.
  mkdirSync(unlisted);
  const masks = [{ entity: members, mask: 'm1', keyId: 'k1' }];
  const asked = { masks, maskings: [hashesIds], targets: [], signal, renameFile: () => Promise.resolve() };
  await expect(sink.masking.rewrite(news, asked)).rejects.toThrow();
  rmdirSync(unlisted);
  writeFileSync(unlisted, '{"id":"1"}\n');
  expect(await sink.purges.complete(news)).toEqual([]);
  expect(fileNames()).toEqual([]);
});
