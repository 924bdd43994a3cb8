import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { it } from '../../support/it.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { CommittedPage, Sink } from '../../../src/sinks/sink.ts';
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

/** A process that is killed in the middle of its run, with the lines of three members and three opens. */
async function killed(): Promise<void> {
  const sink = await open();
  await store(sink, await sink.acquire(identity()), 'r1', ['1', '2', '3']);
  await sink[Symbol.asyncDispose]();
}

const fileOf = (entity: EntityName, name: string): string => join(folder, 'news', entity, name);
const idsIn = (entity: EntityName, name: string): readonly unknown[] =>
  readFileSync(fileOf(entity, name), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { id: unknown }).id);

// Proves promise 1.4
it.each([
  ['cut in half', (file: string) => truncateSync(file, Math.floor(readFileSync(file).length / 2)), ['1']],
  [
    'written in the wrong order, with a hole in the middle',
    (file: string) => {
      const bytes = readFileSync(file);
      const second = bytes.indexOf(10) + 1;
      writeFileSync(file, bytes.fill(0, second + 9, second + 20));
    },
    ['1'],
  ],
  [
    'overwritten with other text of the same length',
    (file: string) => writeFileSync(file, readFileSync(file, 'utf8').replace('"id":"2"', '"id":"7"')),
    null,
  ],
] as const)(
  'lines of a growing file that was %s come back in another one, of rows that are never replaced too',
  async (_how, damage, kept) => {
    await killed();
    for (const entity of [members, opens]) damage(fileOf(entity, '1-1.jsonl.open'));
    const sink = await open();
    const lease = await sink.acquire(identity());
    for (const entity of [members, opens]) {
      expect(kept === null ? [] : idsIn(entity, '1-1.jsonl')).toEqual(kept ?? []);
      expect(existsSync(fileOf(entity, '1-1.jsonl.open.damaged'))).toBe(kept === null);
      expect(idsIn(entity, '2-1.jsonl')).toEqual(['1', '2', '3'].slice(kept?.length ?? 0));
    }
    expect(await sink.lostRows(lease)).toEqual([]);
    expect(await partialFiles()).toBe(2);
  },
);

// Proves promise 1.4
it('come back beside a file of the same epoch that a power loss has left without its commit', async () => {
  await killed();
  const file = fileOf(members, '1-1.jsonl.open');
  truncateSync(file, Math.floor(readFileSync(file).length / 2));
  writeFileSync(fileOf(members, '2-1.jsonl.open'), '{"id":"9"}\n');
  const sink = await open();
  const lease = await sink.acquire(identity());
  expect(idsIn(members, '1-1.jsonl')).toEqual(['1']);
  expect(idsIn(members, '2-2.jsonl')).toEqual(['2', '3']);
  expect(await sink.lostRows(lease)).toEqual([]);
});

/** How many closed files stand in for damaged lines. */
async function partialFiles(): Promise<number | undefined> {
  const access = accessSink({ type: 'jsonl', directory: folder });
  await using closed = await access.openClosedFiles();
  const checked = await closed?.contents(identity().connector, {
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  expect(checked?.damaged).toEqual([]);
  return checked?.partial;
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

// Proves promise 1.4
it.each([
  ['is gone', (file: string) => rmSync(file), 'it is not there', []],
  [
    'is too short',
    (file: string) => truncateSync(file, readFileSync(file).length - 10),
    'it holds',
    ['1', '2'],
  ],
  [
    'is too long',
    (file: string) => writeFileSync(file, 'notes\n', { flag: 'a' }),
    'it holds',
    ['1', '2', '3'],
  ],
  ['is cut in its first line', (file: string) => truncateSync(file, 10), 'it holds', []],
  ['is another one', (file: string) => writeFileSync(file, 'notes\n'), 'it holds', []],
] as const)(
  'a closed file that %s stops a sync by its name, and what the message advises brings every line back',
  async (_how, damage, found, kept) => {
    await ended();
    const file = fileOf(opens, '1-1.jsonl');
    const bytes = readFileSync(file).length;
    damage(file);
    const sink = await open();
    const failure: unknown = await sink.acquire(identity()).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'SINK_DAMAGED', context: { file, files: 1 } });
    expect(String(failure)).toContain(`${file} should hold ${bytes} bytes of stored changes, but ${found}`);
    expect(String(failure)).toContain('Restore it from a backup and sync again.');
    expect(String(failure)).toContain('connector-sync reset news --yes');
    const scope = { entity: null, tables: [], withData: false, now: '2026-03-02T10:00:00.000Z' };
    await sink.repair.reset(identity().connector, scope);
    const lease = await sink.acquire(identity());
    expect(kept.length === 0 ? [] : idsIn(opens, '1-1.jsonl')).toEqual(kept);
    const replaced = 3 - kept.length;
    const names = readdirSync(join(folder, 'news', opens)).filter((name) => name.endsWith('.jsonl'));
    expect(names.sort()).toEqual([
      ...(kept.length === 0 ? [] : ['1-1.jsonl']),
      ...(replaced === 0 ? [] : ['2-1.jsonl']),
    ]);
    if (replaced > 0) expect(idsIn(opens, '2-1.jsonl')).toEqual(['1', '2', '3'].slice(kept.length));
    expect(await partialFiles()).toBe(replaced === 0 ? 0 : 1);
    const { counts: stored } = await store(sink, lease, 'r2', ['1', '2', '3']);
    const unchanged = counts({ fetched: 3, unchanged: 3 });
    expect(stored).toEqual([members, opens].map((entity) => ({ entity, counts: unchanged })));
  },
);

it('a closed file whose content has changed is put aside by a reset, and replaced', async () => {
  await ended();
  const file = fileOf(opens, '1-1.jsonl');
  writeFileSync(file, readFileSync(file, 'utf8').replace('"id":"2"', '"id":"7"'));
  const sink = await open();
  const scope = { entity: null, tables: [], withData: false, now: '2026-03-02T10:00:00.000Z' };
  await sink.repair.reset(identity().connector, scope);
  expect(existsSync(`${file}.damaged`)).toBe(true);
  expect(idsIn(opens, '2-1.jsonl')).toEqual(['1', '2', '3']);
  const lease = await sink.acquire(identity());
  await store(sink, lease, 'r2', ['4']);
  expect(idsIn(opens, '2-2.jsonl.open'), 'no name is given twice').toEqual(['4']);
});
