import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { instant, type Clock } from '../../../src/core/clock.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import {
  type EntityTable,
  type PageCounts,
  addCounts,
  keyTextOf,
  noCounts,
} from '../../../src/core/records.ts';
import { openFolderStore } from '../../../src/publish/folder-store.ts';
import { openObjectTarget } from '../../../src/publish/object-target.ts';
import type { PublishEnd, PublishRequest } from '../../../src/publish/publication.ts';
import { type FileFormat, openRowFileWriters } from '../../../src/publish/row-files.ts';
import type { ObjectStore, Target } from '../../../src/publish/target.ts';
import type { Seal } from '../../../src/sinks/partition.ts';
import type { StoredRecord } from '../../../src/sinks/readings.ts';
import { openExistingRecords, openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { CommittedPage, PageCommit } from '../../../src/sinks/sink.ts';
import {
  entityReport,
  identity,
  manualClock,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  opens,
  opensTable,
  page,
  record,
  report,
  runPlan,
  sealed,
} from '../../contracts/sink/fixture.ts';
import { connectorOf, publishNow } from './publish-now.ts';
import { lakeManifests, readLake, seqsOf, unnamedFiles } from './read-lake.ts';

/** Entity -> key -> `_seq` and whether it is deleted: the newest change of every row. */
type Rows = ReadonlyMap<string, ReadonlyMap<string, StoredRecord>>;

export type PublishWorld = ReturnType<typeof openPublishWorld>;

export interface Change {
  /** Names by ids. */
  readonly upserts?: Readonly<Record<string, string>>;
  readonly deletes?: readonly string[];
  readonly tables?: readonly EntityTable[];
  readonly isWhole?: boolean;
  /** Versions of the members are kept from now on. */
  readonly hasHistory?: boolean;
  /** Called when the members are stored, before `more` of them are. */
  readonly onStored?: () => void;
  readonly more?: Change['upserts'];
  /** Called when `more` are stored too, before the run ends. */
  readonly onEnding?: () => Promise<void>;
}

/** So many ids from 0 on, all with one name. */
export function allNamed(count: number, name: string): NonNullable<Change['upserts']> {
  return Object.fromEntries(Array.from({ length: count }, (_, id) => [String(id), name]));
}

/** A SQLite sink with members and what they opened, in a folder of its own, and how to publish it. */
export function openPublishWorld() {
  const folder = mkdtempSync(join(tmpdir(), 'publish-'));
  const lake = join(folder, 'lake');
  const clock = manualClock();
  const files = join(folder, 'sink');
  const sink: SinkOptions = {
    type: 'sqlite',
    name: 'main',
    path: join(files, 'main.db'),
    durability: 'normal',
  };
  const tables = [membersTable, opensTable];
  const target = (
    change: (store: ObjectStore) => Partial<ObjectStore> = () => ({}),
    format: FileFormat = 'jsonl',
  ): Target => {
    const store = openFolderStore(lake);
    return openObjectTarget({
      store: { ...store, ...change(store) },
      writers: openRowFileWriters(),
      format,
      clock,
    });
  };
  let runs = 0;
  let opened: Sink | null = null;
  const withSink = async <Result>(work: (opened: Sink) => Promise<Result>): Promise<Result> => {
    opened ??= await openSink(sink, { clock });
    return await work(opened);
  };
  const settings = (change: Partial<PublishRequest['settings']> = {}): PublishRequest['settings'] => ({
    name: 'lake',
    connectors: [connectorOf(sink)],
    times: 'text',
    snapshotEveryMs: null,
    keepMs: null,
    ...change,
  });
  const publishInto = async (into: Target, request: Partial<PublishRequest> = {}): Promise<PublishEnd> =>
    await publishNow(into, settings(), { clock, ...request });
  return {
    folder,
    /** Of the target. */
    lake,
    clock,
    sink,
    tables,
    settings,
    /** Uses the sink in another way. */
    withSink,
    target,
    /** A run that stores these members, each with one opening, and deletes others. Whole: it moves `asOf`. */
    run: async (change: Change) => {
      clock.advance(60_000);
      runs += 1;
      await withSink(async (into) => {
        await runOnce(into, clock, runs, change);
      });
    },
    /** Drops the tables of an entity, or of all. */
    reset: async (entity: EntityName | null) =>
      await withSink(async (from) => {
        await from.repair.reset(news, {
          entity,
          tables: [],
          withData: true,
          now: '2026-03-01T12:00:00.000Z',
        });
      }),
    /** The newest change of every row, deletes included. */
    rows: async () => await storedRows(sink, tables),
    /** Numbers of the rows that the sink has. */
    stored: async () => seqsOf(await storedRows(sink, tables)),
    manifests: () => lakeManifests(lake),
    /** Files that no manifest names. */
    unnamed: () => unnamedFiles(lake).toSorted(),
    /** A reader's view of the newest publication: its number, 0 before the first, and the numbers of its rows. */
    seen: () => {
      const manifests = lakeManifests(lake);
      const publication = manifests.at(-1)?.publication ?? 0;
      return { publication, rows: publication === 0 ? {} : seqsOf(readLake(lake, manifests, publication)) };
    },
    /** What a check of the target finds. */
    problems: async () => {
      await using own = target();
      return (await own.check(new AbortController().signal)).problems;
    },
    /** Into a target of its own unless one is given, which stays open. */
    publish: async (request?: Partial<PublishRequest>, given?: Target) => {
      if (given !== undefined) return await publishInto(given, request);
      await using own = target();
      return await publishInto(own, request);
    },
    refused: async (
      message: RegExp,
      { code = 'TARGET_INCOMPATIBLE', ...request }: Partial<PublishRequest> & { readonly code?: string } = {},
    ): Promise<void> => {
      await using own = target();
      const refusal = { code, message: expect.stringMatching(message) as string };
      await expect(publishInto(own, request)).rejects.toMatchObject(refusal);
    },
    /** Copies of the sink's files, as a backup makes them. */
    backup: () => {
      const copy = mkdtempSync(join(folder, 'backup-'));
      cpSync(files, copy, { recursive: true });
      return {
        restore: async () => {
          await opened?.[Symbol.asyncDispose]();
          opened = null;
          rmSync(files, { recursive: true });
          cpSync(copy, files, { recursive: true });
        },
      };
    },
    [Symbol.asyncDispose]: async () => {
      await opened?.[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function runOnce(sink: Sink, clock: Clock, number: number, change: Change): Promise<void> {
  const { upserts = {}, deletes = [], tables = [membersTable, opensTable], isWhole = true } = change;
  const startedAt = instant(clock.now());
  const run = `${startedAt.replaceAll(/[-:.]/g, '')}-${String(number).padStart(8, '0')}` as RunId;
  await using lease = await sink.acquire(identity());
  const versions = new Set(change.hasHistory === true ? [members] : []);
  await sink.startRun(lease, runPlan(run, { startedAt, tables, isFull: true, versions }));
  const { id } = await onlyPartition(sink, lease);
  const pageOf = (names: NonNullable<Change['upserts']>, seal: Seal | null): PageCommit => {
    const stored = Object.entries(names);
    const columns = tables[0]?.columns ?? [];
    const records = stored.map(([key, name]) =>
      member(key, name, { values: columns.map((column) => valueOf(column.name, key, name)) }),
    );
    const opened = stored.map(([key, name]) => record(opensTable, { id: key, at: name }));
    const rows = [
      { entity: members, records },
      { entity: opens, records: opened },
    ];
    return page({ lease, run }, id, records, { rows, seal, position: { kind: 'offset', offset: 1 } });
  };
  const counted = new Map<EntityName, PageCounts>();
  const count = (committed: readonly CommittedPage[]): void => {
    for (const { entity, counts } of committed.flatMap((one) => one.counts)) {
      counted.set(entity, addCounts(counted.get(entity) ?? noCounts, counts));
    }
  };
  count(await sink.commit(lease, [pageOf(upserts, change.more === undefined ? sealed : null)]));
  change.onStored?.();
  if (change.more !== undefined) count(await sink.commit(lease, [pageOf(change.more, sealed)]));
  await change.onEnding?.();
  for (const key of deletes) {
    await sink.repair.tombstoneRecord(lease, run, members, keyTextOf(['a', key]));
  }
  const entities = [...counted].map(([entity, counts]) => ({ ...entityReport(entity, counts), isWhole }));
  const outcome = isWhole ? 'ok' : 'degraded';
  const ended = report(
    { lease, run },
    { outcome, startedAt, finishedAt: instant(clock.now() + 1), entities },
  );
  await sink.finish(lease, run, ended);
}

function valueOf(column: string, key: string, name: string): string | number | null {
  const values: Readonly<Record<string, string | number>> = {
    list_id: 'a',
    id: key,
    name,
    visits: name.length,
  };
  return values[column] ?? null;
}

async function storedRows(sink: SinkOptions, tables: readonly EntityTable[]): Promise<Rows> {
  await using reader = await openExistingRecords(sink);
  const rows = new Map<string, ReadonlyMap<string, StoredRecord>>();
  for (const { entity } of tables) {
    const table = (await reader?.table(news, entity)) ?? null;
    if (reader === null || table === null) continue;
    const byKey = new Map<string, StoredRecord>();
    for await (const records of reader.changes(news, table, 0)) {
      for (const one of records) byKey.set(keyOf(table, one), one);
    }
    rows.set(entity, byKey);
  }
  return rows;
}

function keyOf({ key, columns }: EntityTable, { values }: StoredRecord): string {
  return keyTextOf(key.map((name) => values[columns.findIndex((column) => column.name === name)] ?? null));
}
