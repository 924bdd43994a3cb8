import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { it } from '../../support/it.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { CommittedPage } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  counts,
  entityReport,
  identity,
  manualClock,
  member,
  members,
  onlyPartition,
  opens,
  opensTable,
  page,
  record,
  report,
  runPlan,
  sealed,
  type Started,
} from '../../contracts/sink/fixture.ts';

let folder = '';
const sinks: Sink[] = [];
it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(async () => {
  for (const sink of sinks.splice(0)) await sink[Symbol.asyncDispose]();
});

async function open(): Promise<Sink> {
  const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
  const sink = await openSink(options, { clock: manualClock() });
  sinks.push(sink);
  return sink;
}

const openOf = (id: string): PreparedRecord => record(opensTable, { id, at: '10:00' });

/** One page with these members, and a row made of each of them that is never replaced. */
async function store(sink: Sink, lease: Lease, run: string, ids: readonly string[]): Promise<CommittedPage> {
  await sink.startRun(lease, runPlan(run));
  const { id } = await onlyPartition(sink, lease);
  const records = ids.map((one) => member(one));
  const rows = [
    { entity: members, records },
    { entity: opens, records: ids.map(openOf) },
  ];
  const started: Started = { lease, run: run as Started['run'] };
  const [committed] = await sink.commit(started.lease, [page(started, id, records, { rows, seal: sealed })]);
  if (committed === undefined) throw new Error('one page was committed');
  return committed;
}

const fileOf = (entity: EntityName, name: string): string => join(folder, 'news', entity, name);
const idsIn = (entity: EntityName, name: string): readonly unknown[] =>
  readFileSync(fileOf(entity, name), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { id: unknown }).id);

/** Closed files that do not hold what the manifest says. */
async function damaged(): Promise<unknown> {
  await using closed = await accessSink({ type: 'jsonl', directory: folder }).openClosedFiles();
  const how = { signal: new AbortController().signal, onProgress: () => undefined };
  return (await closed?.check(identity().connector, how))?.damaged;
}

/** A run that has ended: its files are closed. */
async function ended(): Promise<void> {
  const sink = await open();
  const lease = await sink.acquire(identity());
  await store(sink, lease, 'r1', ['1', '2', '3']);
  const inserted = { fetched: 3, inserted: 3 };
  const entities = [entityReport(members, inserted), entityReport(opens, inserted)];
  const run = 'r1' as Started['run'];
  await sink.finish(lease, run, report({ lease, run }, { entities }));
  await sink[Symbol.asyncDispose]();
}

const name = '000000000004.jsonl';
const scope = { entity: null, tables: [], withData: false, now: '2026-03-02T10:00:00.000Z' };

// Proves promise 1.4
it.each([
  ['is gone', (file: string) => rmSync(file), 'it is not there'],
  ['is too short', (file: string) => truncateSync(file, readFileSync(file).length - 10), 'it holds'],
  ['is too long', (file: string) => writeFileSync(file, 'notes\n', { flag: 'a' }), 'it holds'],
  ['is another one', (file: string) => writeFileSync(file, 'notes\n'), 'it holds'],
] as const)(
  'a closed file that %s stops a sync by its name, and what the message advises writes it again',
  async (_how, damage, found) => {
    await ended();
    const file = fileOf(opens, name);
    const before = readFileSync(file, 'utf8');
    damage(file);
    const sink = await open();
    const failure: unknown = await sink.acquire(identity()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'SINK_DAMAGED', context: { file, files: 1 } });
    expect(String(failure)).toContain(
      `${file} should hold ${before.length} bytes of stored changes, but ${found}`,
    );
    expect(String(failure)).toContain('Restore it from a backup and sync again.');
    expect(String(failure)).toContain('connector-sync reset news --yes');
    await sink.repair.reset(identity().connector, scope);
    const lease = await sink.acquire(identity());
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(readdirSync(join(folder, 'news', opens))).toEqual([name]);
    expect(await damaged()).toEqual([]);
    const { counts: stored } = await store(sink, lease, 'r2', ['1', '2', '3']);
    const unchanged = counts({ fetched: 3, unchanged: 3 });
    expect(stored).toEqual([members, opens].map((entity) => ({ entity, counts: unchanged })));
  },
);

// Proves promise 1.4
it('a closed file whose content has changed is written again by a reset, without lines of rows that changed later', async () => {
  await ended();
  const file = fileOf(members, '000000000001.jsonl');
  const sink = await open();
  const lease = await sink.acquire(identity());
  await sink.startRun(lease, runPlan('r2'));
  const { id } = await onlyPartition(sink, lease);
  const started = { lease, run: 'r2' as Started['run'] };
  await sink.commit(lease, [page(started, id, [member('2', 'Grace')])]);
  const entities = [entityReport(members, { fetched: 1, updated: 1 })];
  await sink.finish(lease, started.run, report(started, { entities }));
  await lease[Symbol.asyncDispose]();
  writeFileSync(file, readFileSync(file, 'utf8').replace('"id":"2"', '"id":"7"'));
  expect(await damaged()).toMatchObject([{ path: file }]);
  await sink.repair.reset(identity().connector, scope);
  expect(idsIn(members, '000000000001.jsonl')).toEqual(['1', '3']);
  expect(idsIn(members, '000000000007.jsonl')).toEqual(['2']);
  expect(await damaged()).toEqual([]);
});

// Proves promise 1.4
it('a closed file of which every row has changed later is forgotten by a reset', async () => {
  await ended();
  const sink = await open();
  const lease = await sink.acquire(identity());
  await store(sink, lease, 'r2', []);
  const started = { lease, run: 'r2' as Started['run'] };
  for (const one of ['1', '2', '3']) {
    await sink.repair.tombstoneRecord(lease, started.run, members, member(one).keyText);
  }
  await sink.finish(lease, started.run, report(started));
  await lease[Symbol.asyncDispose]();
  rmSync(fileOf(members, '000000000001.jsonl'));
  await sink.repair.reset(identity().connector, scope);
  expect(readdirSync(join(folder, 'news', members))).toEqual(['000000000007.jsonl']);
  await sink.acquire(identity());
});
