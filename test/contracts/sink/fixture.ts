import { compileCompare } from '../../../src/engine/prepare/row-content.ts';
import { nothingDone } from '../../../src/engine/run-tally.ts';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { instant, type Clock } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { ConnectorId, ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import {
  addCounts,
  noCounts,
  type EntityTable,
  type PageCounts,
  type PreparedRecord,
} from '../../../src/core/records.ts';
import type { OpenHistory, OpenHow, Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { FoundPartition, Partition, Proof, Seal, WalkFailure } from '../../../src/sinks/partition.ts';
import type { ExpireRequest, PurgeRequest, Retention, ResetScope } from '../../../src/sinks/requests.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { ConnectorIdentity, Lease } from '../../../src/sinks/lease.ts';
import type { PageCommit, EntityReading, RunPlan } from '../../../src/sinks/sink.ts';

/**
 * What the contract needs to know of a kind of sink: how a test makes one, and how it is read from outside.
 * `folder` is an empty folder that stands for one sink; a sink that is no file takes its name for a schema.
 */
export interface SinkKind {
  readonly options: (folder: string) => SinkOptions;
  readonly open: (folder: string, how: Omit<OpenHow, 'durability'>) => Promise<Sink>;
  readonly openHistory: (folder: string) => Promise<OpenHistory>;
  /**
   * Runs one statement over the `_sync_*` tables, which every sink has, beside the sink; gives what it reads, integers
   * as numbers.
   */
  readonly ledgerSql: (folder: string, sql: string) => Promise<readonly LedgerRow[]>;
  /** As if other holders had taken every connector. */
  readonly overtake: (folder: string) => Promise<void>;
  /** From now on every update of a row of this table fails. */
  readonly refuseUpdates: (folder: string, table: string) => Promise<void>;
  /** How long after its holder was killed a connector is free, where that is not at once. */
  readonly freeWithinMs?: number;
  /** All that the sink stores as text, without what is of these entities: equal where nothing else has changed. */
  readonly contents: (folder: string, without: readonly StoredEntity[]) => Promise<readonly string[]>;
  /**
   * Every record of the entity as a reader finds it now: declared fields as JSON values, `_extra`, `_seq`,
   * `_changed_at`, `_run_id`.
   */
  readonly readRows: (
    folder: string,
    connector: string,
    table: EntityTable,
  ) => Promise<readonly JsonObject[]>;
  /** The newest change of every row (JSONL: all changes), by `_seq`, with `_op` `upsert` or `delete`. */
  readonly readChanges: (
    folder: string,
    connector: string,
    table: EntityTable,
  ) => Promise<readonly JsonObject[]>;
}

export type LedgerRow = Readonly<Record<string, unknown>>;

export interface StoredEntity {
  readonly connector: string;
  readonly entity: string;
}

export const news = 'news' as ConnectorName;
export const members = 'members' as EntityName;
export const lists = 'lists' as EntityName;
export const opens = 'member_opens' as EntityName;
export const blocks = 'blocks' as EntityName;

export const membersTable: EntityTable = {
  entity: members,
  columns: [
    { name: 'list_id', type: 'string' },
    { name: 'id', type: 'string' },
    { name: 'name', type: 'string' },
    { name: 'visits', type: 'integer' },
    { name: 'score', type: 'number' },
    { name: 'vip', type: 'boolean' },
    { name: 'address', type: 'object' },
    { name: 'tags', type: 'array' },
    { name: 'anything', type: 'any' },
  ],
  key: ['list_id', 'id'],
};
export const listsTable: EntityTable = {
  entity: lists,
  columns: [{ name: 'id', type: 'string' }],
  key: ['id'],
};
export const opensTable: EntityTable = {
  entity: opens,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'at', type: 'string' },
  ],
  key: ['id', 'at'],
};
export const blocksTable: EntityTable = {
  entity: blocks,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'text', type: 'string' },
  ],
  key: ['id'],
};

export const start = Date.parse('2026-03-01T10:00:00.000Z');
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

export interface ManualClock extends Clock {
  advance(ms: number): void;
}

export function manualClock(): ManualClock {
  let now = start;
  return {
    now: () => now,
    sleep: () => Promise.reject(new Error('A sink never waits')),
    advance: (ms) => {
      now += ms;
    },
  };
}

export function identity(change: Partial<ConnectorIdentity> = {}): ConnectorIdentity {
  return {
    connector: news,
    baseUrl: 'https://api.example.test',
    connectorId: 'c-1' as ConnectorId,
    definition: 'email-marketing',
    definitionHash: 'v1',
    holder: { pid: process.pid, host: 'here', command: 'connector-sync sync news', since: instant(start) },
    ...change,
  };
}

export function partition(
  entity: EntityName,
  params: JsonObject,
  change: Partial<FoundPartition> = {},
): FoundPartition {
  const alone = { treeDepth: null, tree: null, parent: null, marker: null, base: null };
  return { entity, params, inject: {}, rank: 0, ...alone, ...change };
}

export const rootOf = (entity: EntityName): FoundPartition => partition(entity, {});

/** A record of `table`; names it does not give are null. The hash covers all it gives. */
export function record(
  table: EntityTable,
  values: Readonly<Record<string, string | number | bigint | null>>,
  change: Partial<PreparedRecord> = {},
): PreparedRecord {
  const content = Object.entries(values).map(([name, value]) => `${name}=${typeof value}:${String(value)}`);
  return {
    keyText: JSON.stringify(table.key.map((name) => values[name])),
    hash: createHash('md5')
      .update(content.join('\n') + (change.extra ?? ''))
      .digest('hex'),
    values: table.columns.map(({ name }) => values[name] ?? null),
    extra: null,
    compare: compileCompare({ table, volatile: [] }),
    ...change,
  };
}

/** A record of members, one of whose fields changes nothing by itself. */
export function withVolatile(field: string, record: PreparedRecord): PreparedRecord {
  return { ...record, compare: compileCompare({ table: membersTable, volatile: [[field]] }) };
}

export function member(id: string, name = 'Ada', change: Partial<PreparedRecord> = {}): PreparedRecord {
  return record(membersTable, { list_id: 'a', id, name }, change);
}

/** Of the rows without a tombstone, in order. */
export function liveIds(rows: readonly JsonObject[]): readonly string[] {
  return rows
    .filter((row) => (row['_deleted_at'] ?? null) === null)
    .map(({ id }) => id as string)
    .toSorted();
}

export const proof: Proof = { kind: 'seam', isOrdered: true };

/** The end of a walk that says nothing of what it did not meet. */
export const sealed: Seal = { proof, watermark: null, absence: null };

/** How an entity is read: by default in full, when that was a week ago. */
export function reading(change: Partial<EntityReading> = {}): EntityReading {
  return {
    isIncremental: false,
    fullBefore: instant(start - 7 * dayMs),
    mayMove: false,
    ...change,
  };
}

/** A run that writes single records, and walks nothing. */
export const refetch = { kind: 'refetch', window: 'refetch', entities: [], roots: [] } as const;

/** By default everything of the connector, with its data. */
export function resetScope(change: Partial<ResetScope> = {}): ResetScope {
  return { entity: null, tables: [], withData: true, now: instant(start), ...change };
}

export function purgeRequest(of: PurgeRequest['of'], change: Partial<PurgeRequest> = {}): PurgeRequest {
  return {
    of,
    canReturn: false,
    targets: [],
    removeFile: () => Promise.reject(new Error('There is no file')),
    signal: AbortSignal.timeout(60_000),
    ...change,
  };
}

/** By default nothing of the entity is too old. */
export function expireRequest(entity: EntityName, change: Partial<Retention> = {}): ExpireRequest {
  const never = { deletedBefore: null, quarantinedBefore: null, filesBefore: null, versionsBefore: null };
  return {
    entities: [{ entity, ...never, publishedThrough: Number.MAX_SAFE_INTEGER, withheld: 0, ...change }],
    isAsked: true,
    removeFile: () => Promise.resolve(),
    signal: AbortSignal.timeout(60_000),
  };
}

export function walkFailure(change: Partial<WalkFailure> & Pick<WalkFailure, 'at'>): WalkFailure {
  const dropped = { dropPosition: false, dropWatermark: false };
  return { code: 'UPSTREAM', recovery: 'retry', message: '500', ...dropped, ...change };
}

export function counts(change: Partial<PageCounts>): PageCounts {
  return { ...noCounts, ...change };
}

export interface Started {
  readonly lease: Lease;
  readonly run: RunId;
}

/** What a run of `members` would do; started when the clock of the tests begins. */
export function runPlan(run: string, change: Partial<RunPlan> = {}): RunPlan {
  const entities = change.entities ?? [members];
  return {
    run: run as RunId,
    kind: 'sync',
    window: '',
    backfill: '',
    startedAt: instant(start),
    isFull: false,
    isBudgeted: false,
    reading: new Map(entities.map((entity) => [entity, reading()])),
    keeps: [],
    keepPartitionsSince: instant(start - 30 * dayMs),
    tables: [membersTable, opensTable],
    entities,
    roots: [rootOf(members)],
    choices: '',
    leaves: [],
    continueAfter: instant(start - dayMs),
    ...change,
  };
}

/** One test's sinks and folder: everything opened through it is closed after the test. */
export class Bench {
  readonly clock = manualClock();
  readonly folder = mkdtempSync(join(tmpdir(), 'sink-'));
  readonly kind: SinkKind;
  readonly #sinks: Sink[] = [];

  constructor(kind: SinkKind) {
    this.kind = kind;
  }

  async open(): Promise<Sink> {
    const sink = await this.kind.open(this.folder, { clock: this.clock });
    this.#sinks.push(sink);
    return sink;
  }

  /** Opens the sink and acquires the connector. */
  async hold(): Promise<{ readonly sink: Sink; readonly lease: Lease }> {
    const sink = await this.open();
    return { sink, lease: await sink.acquire(identity()) };
  }

  plan(run: string, change: Partial<RunPlan> = {}): RunPlan {
    const nowMs = this.clock.now();
    return runPlan(run, {
      startedAt: instant(nowMs),
      keepPartitionsSince: instant(nowMs - 30 * dayMs),
      ...change,
    });
  }

  /** Acquires the connector and starts a run. */
  async begin(sink: Sink, run: string, change: Partial<RunPlan> = {}): Promise<Started> {
    const lease = await sink.acquire(identity());
    await sink.startRun(lease, this.plan(run, change));
    return { lease, run: run as RunId };
  }

  /**
   * A run in which one partition is ready: `commit` stores a page of it, and `finish` reports what its pages counted.
   * `on` is a sink that is open, or the lease that another run had.
   */
  async walking(run = 'r1', change: Partial<RunPlan> = {}, on: { sink?: Sink; lease?: Lease } = {}) {
    const { sink = await this.open(), lease = await sink.acquire(identity()) } = on;
    const begun = await sink.startRun(lease, this.plan(run, change));
    const started: Started = { lease, run: run as RunId };
    const { id, position } = await onlyPartition(sink, lease);
    const counted = new Map<EntityName, PageCounts>();
    const commit = async (...[records, more]: PageOf) => {
      const [committed] = await sink.commit(lease, [page(started, id, records, more)]);
      if (committed === undefined) throw new Error('A page was stored without a word of it');
      for (const { entity, counts: of } of committed.counts) {
        counted.set(entity, addCounts(counted.get(entity) ?? noCounts, of));
      }
      return committed;
    };
    const finish = async (more: Partial<RunReport> = {}): Promise<void> => {
      const entities = [...counted].map(([entity, of]) => entityReport(entity, of));
      await sink.finish(lease, started.run, report(started, { entities, ...more }));
    };
    const release = async (): Promise<void> => await lease[Symbol.asyncDispose]();
    return { sink, ...started, started, begun, id, position, commit, finish, release };
  }

  /** A whole run of one page, which gives the connector back. */
  async read(
    run: string,
    records: readonly PreparedRecord[],
    { sink, plan, ended }: { sink?: Sink; plan?: Partial<RunPlan>; ended?: Partial<RunReport> } = {},
  ): Promise<PageCounts | undefined> {
    const walk = await this.walking(run, plan, sink === undefined ? {} : { sink });
    const { counts: of } = await walk.commit(records, { seal: sealed });
    await walk.finish(ended);
    await walk.release();
    return of[0]?.counts;
  }

  /** What a reader of the ledger opens, without a lease. */
  async openHistory(): Promise<OpenHistory> {
    return await this.kind.openHistory(this.folder);
  }

  async rows(table: EntityTable = membersTable): Promise<readonly JsonObject[]> {
    return await this.kind.readRows(this.folder, news, table);
  }

  async ledger(sql: string): Promise<readonly LedgerRow[]> {
    return await this.kind.ledgerSql(this.folder, sql);
  }

  /** As if other holders had taken every connector. */
  async overtake(): Promise<void> {
    await this.kind.overtake(this.folder);
  }

  /** Of a table of the ledger; `where` as SQL has it. */
  async count(table: string, where = '1 = 1'): Promise<unknown> {
    const [row] = await this.ledger(`SELECT count(*) AS rows FROM ${table} WHERE ${where}`);
    return row?.['rows'];
  }

  /** Closes what was opened; the files stay. */
  async closeSinks(): Promise<void> {
    for (const sink of this.#sinks.splice(0)) {
      await sink[Symbol.asyncDispose]();
    }
  }

  async close(): Promise<void> {
    await this.closeSinks();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A run in which one partition is walked. */
export type Walking = Awaited<ReturnType<Bench['walking']>>;

export async function onlyPartition(sink: Sink, lease: Lease): Promise<Partition> {
  const [first, ...others] = await sink.nextPartitions(lease, 10);
  if (first === undefined || others.length > 0) {
    throw new Error(`Expected one ready partition, not ${others.length + 1}`);
  }
  return first;
}

type PageOf = [
  records: readonly PreparedRecord[],
  change?: Partial<PageCommit> & { readonly entity?: EntityName },
];

/** A page of `members` records (or of the entity given), all of them to be stored. */
export function page(started: Started, id: number, ...[records, change = {}]: PageOf): PageCommit {
  const { entity = members, ...rest } = change;
  return {
    walk: { partition: id, run: started.run },
    fetched: records.length,
    filtered: 0,
    foreign: 0,
    refused: [],
    children: [],
    position: { kind: 'offset', offset: records.length },
    rows: [{ entity, records }],
    seal: null,
    drift: [],
    ...rest,
  };
}

export function report(started: Started, change: Partial<RunReport> = {}): RunReport {
  return {
    run: started.run,
    kind: 'sync',
    connector: news,
    outcome: 'ok',
    startedAt: instant(start),
    finishedAt: instant(start + 1_000),
    continues: null,
    entities: [],
    calls: 1,
    retries: 0,
    waitedMs: 0,
    bytes: 10,
    failures: [],
    failuresOmitted: 0,
    error: null,
    resumeAt: null,
    left: [],
    partMissing: [],
    unconfirmed: [],
    files: [],
    ...change,
  };
}

export function entityReport(entity: EntityName, change: Partial<PageCounts>): RunReport['entities'][number] {
  return {
    ...nothingDone,
    entity,
    counts: counts(change),
    pages: 1,
    proofs: { single: 1, seam: 0, token: 0, keyset: 0 },
    isWhole: true,
    isProven: true,
  };
}
