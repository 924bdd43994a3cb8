import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, onTestFinished } from 'vitest';
import type { EntityName } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import { accessSink, openSink } from '../../../src/sinks/registry.ts';
import type { CommittedPage, Sink } from '../../../src/sinks/sink.ts';
import { schemaVersion } from '../../../src/sinks/sqlite/schema.ts';
import {
  counts,
  entityReport,
  identity,
  manualClock,
  member,
  members,
  news,
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
import { it } from '../../support/it.ts';
import { unpackFolder } from '../../support/stored/packed-files.ts';
import { openStored } from '../../support/stored/stored-fixture.ts';

/* Version 7 kept the keys of records in its ledger, and their fields in lines alone. */

let folder = '';
const sinks: Sink[] = [];
it.beforeEach(({ folder: made }) => {
  folder = join(made, 'sink');
  mkdirSync(folder, { mode: 0o700 });
  // A run that was killed, with the lines of four members and of four opens; the fourth member is deleted.
  unpackFolder('jsonl-killed.json.br', folder);
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

function all(file: string, sql: string): readonly Readonly<Record<string, unknown>>[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare<[], Record<string, unknown>>(sql).all();
  } finally {
    db.close();
  }
}

const lastMembers = ['1', '2', '3'];
const fileOf = (entity: EntityName, name: string): string => join(folder, 'news', entity, name);
const openOf = (id: string): PreparedRecord => record(opensTable, { id, at: '10:00' });

function linesIn(file: string): readonly Readonly<Record<string, unknown>>[] {
  const texts = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return texts.map((line) => JSON.parse(line) as Record<string, unknown>);
}

async function store(sink: Sink, lease: Lease, run: string, ids: readonly string[]): Promise<CommittedPage> {
  await sink.startRun(lease, runPlan(run));
  const { id } = await onlyPartition(sink, lease);
  const records = ids.map((one) => member(one));
  const rows = [
    { entity: members, records },
    { entity: opens, records: ids.map(openOf) },
  ];
  const started: Started = { lease, run: run as Started['run'] };
  const [committed] = await sink.commit(lease, [page(started, id, records, { rows, seal: sealed })]);
  if (committed === undefined) throw new Error('one page was committed');
  return committed;
}

it('becomes what a new ledger is, and keeps no table of keys', async () => {
  const file = join(folder, '_ledger.db');
  await open();
  expect(all(file, "SELECT name FROM sqlite_schema WHERE name LIKE '\\_sync\\_keys%' ESCAPE '\\'")).toEqual(
    [],
  );
  expect(all(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: schemaVersion }]);
  expect(all(file, 'SELECT id, _row, _seq, _deleted_at IS NULL AS live FROM news__members')).toMatchObject([
    { id: '1', _row: 1, live: 1 },
    { id: '2', _row: 2, live: 1 },
    { id: '3', _row: 3, live: 1 },
    { id: '4', _row: 4, live: 0 },
  ]);
});

it('is brought up to date by what only reads it, because its records were in its lines alone', async () => {
  const access = accessSink({ type: 'jsonl', directory: folder });
  await using reader = await access.openRecords();
  const table = await reader.table(news, members);
  if (table === null) throw new TypeError('The fixture has members');
  const ids: unknown[] = [];
  for await (const records of reader.changes(news, table, 0)) {
    ids.push(...records.map(({ values }) => values[table.columns.findIndex(({ name }) => name === 'id')]));
  }
  expect(new Set(ids)).toEqual(new Set(['1', '2', '3', '4']));
  await using keys = await access.openKeys();
  const live: string[] = [];
  for await (const batch of keys.keys(news, table)) live.push(...batch.map(({ keyText }) => keyText));
  expect(live).toHaveLength(3);
});

// Proves promise 1.7
it('is refused where it is of an older version still, and stays as it was', async () => {
  const file = join(folder, '_ledger.db');
  const db = new Database(file);
  db.pragma('user_version = 6');
  db.close();
  await expect(open()).rejects.toMatchObject({
    code: 'SINK_INCOMPATIBLE',
    message: expect.stringContaining(
      `schema version 6, which is too old; 7 to ${schemaVersion} are expected.`,
    ) as string,
  });
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: 6 }]);
});

it('has in its tables what the newest lines of the keys say, to the letter', async () => {
  const { bench } = await openStored({ type: 'jsonl', name: 'jsonl' });
  onTestFinished(async () => await bench.close());
  await bench.open();
  await bench.closeSinks();
  folder = join(bench.folder, 'sink');
  const file = join(folder, '_ledger.db');
  let compared = 0;
  for (const { connector, entity, name, stored } of all(file, 'SELECT * FROM _sync_tables')) {
    const columns = (JSON.parse(String(stored)) as { name: string; type: string }[]).filter(
      ({ type }) => type === 'string',
    );
    const directory = join(folder, String(connector), String(entity));
    const lines = new Map(
      readNames(directory).flatMap((one) =>
        linesIn(join(directory, one)).map((line) => [line['_seq'], line]),
      ),
    );
    for (const row of all(file, `SELECT * FROM "${String(name)}" WHERE _deleted_at IS NULL`)) {
      const line = lines.get(row['_seq']) ?? {};
      expect(line).toMatchObject({ _op: 'upsert', _changed_at: row['_changed_at'], _run_id: row['_run_id'] });
      for (const column of columns) expect(row[column.name]).toBe(line[column.name] ?? null);
      expect(JSON.parse(String(row['_extra']))).toEqual(line['_extra'] ?? null);
      compared += 1;
    }
  }
  expect(compared).toBeGreaterThan(300);
});

function readNames(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

it('writes nothing for records whose lines are there', async () => {
  const sink = await open();
  expect(all(join(folder, '_ledger.db'), 'SELECT can_continue FROM _sync_runs')).toEqual([
    { can_continue: 1 },
  ]);
  const lease = await sink.acquire(identity());
  const { counts: stored } = await store(sink, lease, 'r2', lastMembers);
  const unchanged = counts({ fetched: 3, unchanged: 3 });
  expect(stored).toEqual([members, opens].map((entity) => ({ entity, counts: unchanged })));
  expect(await sink.lostRows(lease)).toEqual([]);
});

it('takes back no deletion of which it has only the key', async () => {
  const sink = await open();
  const lease = await sink.acquire(identity());
  const run = 'r2' as Started['run'];
  await sink.startRun(lease, runPlan(run));
  await expect(sink.repair.undelete(lease, run, 'r1' as Started['run'], 10)).rejects.toMatchObject({
    code: 'USAGE',
    message: expect.stringContaining('sync with --full') as string,
  });
});

// Proves promise 1.4
it.each([
  ['cut in half', (file: string) => truncateSync(file, Math.floor(statSync(file).size / 2)), ['1', '2']],
  ['gone', (file: string) => rmSync(file), []],
  [
    'overwritten with other text of the same length',
    (file: string) => writeFileSync(file, readFileSync(file, 'utf8').replace('"id":"2"', '"id":"7"')),
    [],
  ],
] as const)(
  'has lost the lines of a file that is %s, and reads everything again',
  async (_how, damage, kept) => {
    damage(fileOf(opens, '1-1.jsonl.open'));
    const sink = await open();
    const lease = await sink.acquire(identity());
    const { counts: stored } = await store(sink, lease, 'r2', lastMembers);
    const updated = lastMembers.filter((id) => !(kept as readonly string[]).includes(id)).length;
    expect(stored).toEqual([
      { entity: members, counts: counts({ fetched: 3, unchanged: 3 }) },
      { entity: opens, counts: counts({ fetched: 3, updated, unchanged: 3 - updated }) },
    ]);
    expect(linesIn(fileOf(opens, '2-1.jsonl.open'))).toHaveLength(updated);
    expect(await sink.lostRows(lease), 'the fourth was not met').toEqual([{ entity: opens, rows: 1 }]);
    const ended = async (run: string, isWhole: boolean, more: object): Promise<void> => {
      const started: Started = { lease, run: run as Started['run'] };
      const entities = [
        entityReport(members, { fetched: 3, unchanged: 3 }),
        entityReport(opens, { fetched: 3, ...more }),
      ];
      const whole = entities.map((one) => ({ ...one, isWhole }));
      await sink.finish(lease, started.run, report(started, { entities: whole }));
    };
    await ended('r2', false, { updated, unchanged: 3 - updated });
    await store(sink, lease, 'r3', lastMembers);
    expect(await sink.lostRows(lease), 'not everything was read').toEqual([{ entity: opens, rows: 1 }]);
    await ended('r3', true, { unchanged: 3 });
    const { counts: again } = await store(sink, lease, 'r4', [...lastMembers, '4']);
    expect(await sink.lostRows(lease)).toEqual([]);
    expect(again[1]).toEqual({ entity: opens, counts: counts({ fetched: 4, updated: 1, unchanged: 3 }) });
  },
);

it('writes the lines of deletions again that it has lost', async () => {
  const file = fileOf(members, '1-1.jsonl.open');
  const lines = readFileSync(file, 'utf8').split('\n');
  truncateSync(file, Buffer.byteLength(lines.slice(0, 4).join('\n')) + 1);
  const sink = await open();
  const lease = await sink.acquire(identity());
  await sink.startRun(lease, runPlan('r2'));
  await sink.startRun(lease, runPlan('r3'));
  const written = readNames(join(folder, 'news', members)).filter((name) => name.startsWith('2-'));
  expect(written.flatMap((name) => linesIn(fileOf(members, name)))).toMatchObject([
    { id: '4', _op: 'delete' },
  ]);
});
