import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { ColumnValue } from '../core/records.ts';
import type { TableColumns } from './decisions/stored-table.ts';
import type { Holder, Pause, StoredIdentity } from './lease.ts';

/**
 * Raised with every change of what a copy hands over: a copy that another version of the program began starts again.
 */
export const copyVersion = 4;

/**
 * Copies a connector with all that a sink knows of it into another sink, without its service. A source gives records,
 * then facts of the ledger, in batches; a target stores each batch in one transaction with its progress. What it has is
 * used for nothing else before `finish`.
 */
export interface Copies {
  /**
   * Holds the connector, so that nothing about it changes, until the source is disposed. Writes nothing but its holder.
   * Throws `ConnectorBusyError`; USAGE where nothing of it is stored; SINK_INCOMPATIBLE where this kind of sink cannot
   * give it.
   */
  openSource(connector: ConnectorName, holder: Holder): Promise<CopySource>;
  /**
   * Holds the connector, and begins a copy or resumes the unfinished one of the same state of the same source; one of
   * another state begins again. Throws `ConnectorBusyError`; USAGE where the sink holds the connector already;
   * SINK_INCOMPATIBLE where it cannot take it.
   */
  openTarget(copied: CopiedConnector, how: CopyInto): Promise<CopyTarget>;
  /** Removes what an unfinished copy has stored; false where there is none. Throws `ConnectorBusyError`. */
  discard(connector: ConnectorName, holder: Holder): Promise<boolean>;
  /** Allows runs again of a connector that was copied away; false where it was not. Throws `ConnectorBusyError`. */
  reopen(connector: ConnectorName, holder: Holder): Promise<boolean>;
}

/** Names of the sinks in the config, for people. */
export interface CopyWay {
  readonly from: string;
  readonly to: string;
}

export interface CopyInto extends CopyWay {
  readonly holder: Holder;
}

export interface CopySource extends AsyncDisposable {
  readonly connector: CopiedConnector;
  /**
   * The rows of a table after row number `after`, by row number. Throws FENCED where another process has taken the
   * connector.
   */
  records(table: CopiedTable, after: number): AsyncIterable<readonly CopiedRecord[]>;
  /** Closed versions that ended with a change after `after`, in the order of their ends. Throws as `records`. */
  versions(table: CopiedTable, after: number): AsyncIterable<readonly CopiedVersion[]>;
  /** What the ledger knows, in the order of `factNames`. Throws as `records`. */
  facts(): AsyncIterable<FactBatch>;
  /**
   * The copy is complete: from now on `Sink.acquire` throws COPIED_AWAY, until `Copies.reopen`. Throws as `records`.
   */
  noteCopied(way: CopyWay): Promise<void>;
}

export interface CopyTarget extends AsyncDisposable {
  /**
   * Where an unfinished copy stands; `begun` where nothing was there, `done` where this state of this source is already
   * copied.
   */
  readonly state: 'begun' | 'resumed' | 'done';
  /** The progress of the copy when it was opened. */
  readonly progress: CopyProgress;
  /** False: earlier versions of rows stay in the source alone. */
  readonly keepsVersions: boolean;
  storeRecords(table: CopiedTable, rows: readonly CopiedRecord[]): Promise<void>;
  /** The change up to which versions of a table are stored; null: the target keeps none of it. */
  versionsTo(table: CopiedTable): Promise<number | null>;
  storeVersions(table: CopiedTable, versions: readonly CopiedVersion[]): Promise<void>;
  /** The first batch of facts comes after the last record, and replaces those of an interrupted attempt. */
  storeFacts(batch: FactBatch): Promise<void>;
  /** In one transaction: from now on the connector is as in the source. */
  finish(): Promise<void>;
}

export interface CopiedConnector extends StoredIdentity {
  readonly connector: ConnectorName;
  /** Id of the sink it comes from. */
  readonly sinkId: string;
  /** Changes as soon as any record or table may have changed. */
  readonly state: string;
  readonly definitionHash: string;
  /** Every change number that a reader can have seen is at most this one. */
  readonly newestSeq: number;
  /** No partition has, or ever had, a higher id. */
  readonly highestPartition: number;
  readonly pause: Pause | null;
  readonly tables: readonly CopiedTable[];
}

/** An entity's table: `_sync_tables` by name and meaning. */
export interface CopiedTable extends TableColumns {
  readonly entity: EntityName;
  readonly rows: number;
  readonly deleted: number;
  readonly lastRow: number;
  readonly asOf: string | null;
  readonly takenOver: number | null;
  readonly adoptedAt: string | null;
  readonly firstOrigin: number | null;
  readonly tableId: string;
  /** JSON: what the definition says of it. */
  readonly described: string;
  /** Its rows have versions, or had some. */
  readonly hasVersions: boolean;
}

/** One row of a table, tombstones included. */
export interface CopiedRecord {
  readonly row: number;
  readonly firstSeenAt: Instant;
  readonly changedAt: Instant;
  readonly run: RunId;
  readonly seq: number;
  readonly hash: string;
  readonly volatileHash: string | null;
  readonly deletedAt: Instant | null;
  /** Id of the partition in the source. */
  readonly owner: number | null;
  readonly extra: string | null;
  /** In the order of `CopiedTable.stored`; booleans are 0 and 1, integers may be bigint. */
  readonly values: readonly ColumnValue[];
  /** Where the open version began otherwise than `changedAt` and `seq` say. Absent: the table has no versions. */
  readonly validFrom?: Instant | null;
  readonly validSeq?: number | null;
}

/** A version of a row that has ended. */
export interface CopiedVersion extends Pick<
  CopiedRecord,
  'row' | 'seq' | 'run' | 'hash' | 'deletedAt' | 'extra' | 'values'
> {
  readonly seqTo: number;
  readonly validFrom: Instant;
  readonly validTo: Instant;
}

/**
 * What a ledger knows of a connector, row by row, as a copy hands it over: rows of `_sync_<name>`, without the
 * connector, in this order, so that runs come before rows that name them by number.
 */
export const factNames = [
  'runs',
  'counts',
  'partitions',
  'seen',
  'also',
  'missing',
  'drift',
  'windows',
  'hours',
  'quarantine',
  'downloads',
  'versions',
  'days',
  'masks',
  'actions',
  'conditions',
  'purge_keys',
  'purged',
  'retained',
] as const;

export type FactName = (typeof factNames)[number];
export type FactValue = string | number | Buffer | null;
/** Without the connector, by the names of the columns. */
export type FactRow = Readonly<Record<string, FactValue>>;

export interface FactBatch {
  readonly of: FactName;
  readonly rows: readonly FactRow[];
}

/** The progress of a copy, as its target notes it. */
export interface CopyProgress {
  /** The entity whose records are being stored, and the last row stored; null before the first. */
  readonly entity: EntityName | null;
  readonly row: number;
}

/** The row number up to which the records of an entity are stored; null: all of them. */
export function storedTo(
  tables: readonly CopiedTable[],
  { entity, row }: CopyProgress,
  asked: EntityName,
): number | null {
  const at = tables.findIndex((table) => table.entity === entity);
  const index = tables.findIndex((table) => table.entity === asked);
  if (index === at && at >= 0) return row;
  return index < at ? null : 0;
}

/** A copy that has begun and is not finished: what is stored of the connector is used for nothing else. */
export interface UnfinishedCopy extends CopyWay {
  readonly connector: ConnectorName;
  readonly since: Instant;
}

/** A connector whose syncs continue in the sink that it was copied into. What is stored here stays as it was. */
export interface CopiedAway extends CopyWay {
  readonly connector: ConnectorName;
  readonly at: Instant;
}

/** A sink's copies, by connector. */
export interface SinkCopies {
  /** Into this sink. */
  readonly unfinished: ReadonlyMap<ConnectorName, UnfinishedCopy>;
  /** Out of this sink. */
  readonly away: ReadonlyMap<ConnectorName, CopiedAway>;
}
