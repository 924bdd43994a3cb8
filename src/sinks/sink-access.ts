import type { Clock } from '../core/clock.ts';
import type { ReadableDatabase } from '../sql/database.ts';
import type { LedgerDriver } from './ledger/driver.ts';
import type { ledgerReader } from './ledger/history/history.ts';
import type { ledgerSink } from './ledger/ledger-sink.ts';
import type { recordReader } from './ledger/read-records.ts';
import type { servedLedger } from './ledger/history/overview.ts';
import type { PostgresConnection } from '../sql/postgres/place.ts';
import type { Away } from '../sql/postgres/outage.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';

/**
 * An open sink: records, and the account of their changes. Every call is one transaction, idempotent where it is
 * repeated after a crash, and fenced (`SyncError` FENCED for an overtaken lease). Calls that need no lease may run
 * beside any run, from any process.
 */
export type Sink = ReturnType<typeof ledgerSink>;

/** Missing rows of an entity, as the guards weigh their deletes. */
export type EntityMissing = Awaited<ReturnType<Sink['deletes']['missing']>>[number];

/** The ledger of a sink, read only. Each call reads one consistent state. */
export type LedgerReader = ReturnType<typeof ledgerReader>;

/** The state of one connector. */
export type ConnectorOverview = Awaited<ReturnType<LedgerReader['overview']>>[number];

/** History of one row and of the partition that shows it. */
export type RowHistory = NonNullable<Awaited<ReturnType<LedgerReader['explain']>>>;
export type PartitionHistory = NonNullable<RowHistory['partition']>;

/** Content of a row from one change to the next. */
export type RowVersion = NonNullable<RowHistory['versions']>[number];

/** Stored records, read only. */
export type RecordReader = ReturnType<typeof recordReader>;

/**
 * Ways to open a sink, and its properties as seen from outside. Nothing is opened before it is asked for; the caller
 * disposes the opened object.
 */
export interface SinkAccess {
  /** Place of the sink for people (an absolute path, a host and a schema), without any secret. */
  readonly place: string;
  /** Place of its `_sync_*` tables, in the same form. */
  readonly ledgerPlace: string;
  /**
   * Whether the sink was ever opened for writing. Rejects where that cannot be determined, and where something else is
   * there.
   */
  isThere(): Promise<boolean>;
  /** Opens the sink, as `openSink` of the registry. */
  open(how: OpenHow): Promise<Sink>;
  openHistory(): Promise<OpenHistory>;
  openRecords(): Promise<RecordReader>;
  /**
   * Serves an existing sink for days: makes and writes nothing. Throws `NoSinkYetError` where there is none. `sinkId`:
   * the expected sink of a place that may get another one.
   */
  openWatched(sinkId?: string): Promise<ServedLedger>;
  /** Null where the sink closes no files. */
  openClosedFiles(): Promise<ClosedFiles | null>;
  /** Free space where the sink stores; null where the sink cannot tell. */
  freeBytes(): Promise<number | null>;
  /** For `check`: tests each requirement of the sink other than its files. Rejects where the sink cannot be reached. */
  check(): Promise<readonly SinkFinding[]>;
}

export interface SinkFinding {
  readonly what: string;
  readonly state: 'ok' | 'warning' | 'failed';
  /** The finding, and the remedy where it is not ok; never contains secrets. */
  readonly detail: string;
}

export interface OpenHow {
  readonly durability: 'full' | 'normal';
  readonly clock: Clock;
  /** User in whose name this process acts, for `LedgerReader.actions`; by default the user of the process. */
  readonly who?: string;
  /** Time to wait while another program holds a lock that the sink needs. */
  readonly lockTimeoutMs?: number;
  /** Ends every such wait, of the opened sink too. */
  readonly signal?: AbortSignal;
  /**
   * Called while the opened sink waits for its server, again where the reason changes, and with null when it can be
   * written to again.
   */
  readonly onAway?: ((away: Away | null) => void) | undefined;
  /** The sink that must already exist: none is made then, and SINK_MOVED is thrown for another one. */
  readonly sinkId?: string;
  /** Cache memory at most; 32 MiB by default. */
  readonly cacheKiB?: number;
}

/** A sink opened for reading. Its reader disposes the database. */
export interface OpenedToRead extends Pick<LedgerDriver, 'sinkId' | 'records' | 'newestSeq'> {
  readonly db: ReadableDatabase;
}

export type OpenHistory = LedgerReader &
  AsyncDisposable & {
    /** Random id made with the sink. */
    readonly sinkId: string;
  };

/** The ledger of one sink for a process that serves it for days. */
export type ServedLedger = Awaited<ReturnType<typeof servedLedger>>;

export type SinkPlace =
  | { readonly type: 'sqlite'; readonly path: string }
  | { readonly type: 'jsonl'; readonly directory: string }
  | {
      readonly type: 'postgres';
      readonly connection: PostgresConnection;
      /** A way around a pooler, for locks that belong to a session; null: there is no pooler. */
      readonly direct: PostgresConnection | null;
      readonly schema: string;
      /** Connections that one process opens at most. */
      readonly connections: number;
    };

export type SinkOptions = SinkPlace & {
  readonly name: string;
  readonly durability: 'full' | 'normal';
  /** Time to wait while another program holds the write lock of the sink's database; a minute by default. */
  readonly lockTimeoutMs?: number;
};

/** The files that a sink has closed. Read only, without a lease, beside a process that writes. */
export interface ClosedFiles extends AsyncDisposable {
  /**
   * Compares lengths, which takes some microseconds a file; with `how` reads every file and compares its hash. Rejects
   * with `SyncError` SINK_FAILED, and the signal's reason.
   */
  check(connector: ConnectorName, how?: ComparedContents): Promise<CheckedFiles>;
}

/** Comparison of files' contents: how it is aborted, and its progress. */
export interface ComparedContents {
  readonly signal: AbortSignal;
  /** Called after each file. */
  readonly onProgress: (progress: ContentsProgress) => void;
}

interface ContentsProgress {
  readonly files: number;
  readonly allFiles: number;
  readonly bytes: number;
  readonly allBytes: number;
}

export interface CheckedFiles {
  readonly files: number;
  readonly damaged: readonly DamagedFile[];
}

export interface DamagedFile {
  readonly entity: EntityName;
  readonly path: string;
  /** In bytes, as it was closed. */
  readonly length: number;
  /** Present length; null: the file is missing. Equal to `length`: the content differs. */
  readonly found: number | null;
}

export function damageText({ path, length, found }: DamagedFile): string {
  const differs =
    found === null ? 'it is not there' : found === length ? 'its content has changed' : `it holds ${found}`;
  return `${path} should hold ${length} bytes of stored changes, but ${differs}`;
}

export function damageAdvice(connector: ConnectorName, program: string): string {
  return (
    `Restore it from a backup and sync again. Without a backup: \`${program} reset ${connector} --yes\` writes it again from the stored records; ` +
    'earlier lines of those that changed again later are lost with it, so copy a damaged file away first.'
  );
}
