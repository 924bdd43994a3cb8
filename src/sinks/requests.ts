import { hostname, userInfo } from 'node:os';
import type { Instant } from '../core/clock.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import { createHash } from 'node:crypto';
import type { EntityTable, Column, RecordFile } from '../core/records.ts';
import type { ConnectorIdentity, Holder } from './lease.ts';
import type { RowFacts } from './readings.ts';

/* Requests of people to a sink: actions, purges and retention, repairs, copies, masks of stored values. */

/** Actions of a person, as recorded in the ledger. */
export type ActionName =
  | 'pause'
  | 'resume'
  | 'cancel'
  | 'reset'
  | 'remove'
  | 'add'
  | 'schedule'
  | 'adopt'
  | 'undo'
  | 'purge'
  | 'refetch'
  | 'allow-deletes'
  | 'read-in-full'
  | 'run-now'
  | 'publish-now'
  | 'check'
  | 'mark-known'
  | 'new-key'
  | 'copy-from'
  | 'copy-to'
  | 'copy-discarded'
  | 'copy-reopened';

/** Something that a person did, or asked for. */
export interface Action {
  readonly action: ActionName;
  /** Null: it concerned no connector alone. */
  readonly connector: ConnectorName | null;
  readonly entity?: EntityName | null;
  /** Further facts for a reader, such as the reason of a pause; never contains secrets. */
  readonly detail?: JsonObject;
  /** The run that does it, or that it was about. */
  readonly run?: RunId | null;
  /** User who asked another process for the action; by default `OpenHow.who` of the process that carries it out. */
  readonly who?: string;
}

export interface NotedAction extends Required<Action> {
  readonly id: number;
  readonly at: Instant;
  /** The user and host of a command (`anna@laptop`), or the name of a token. */
  readonly who: string;
}

/** The user of this process, as `_sync_actions` names who did something: `anna@laptop`. */
export function processUser(): string {
  return `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a number that its list of users does not have.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Retention of one entity, as limits of age; null: nothing expires. */
export interface Retention {
  readonly entity: EntityName;
  /** Tombstones that were set before. */
  readonly deletedBefore: Instant | null;
  /** A tombstone stays while its change number is above: some target has not published it yet. */
  readonly publishedThrough: number;
  /** Records that were refused before, and not since. */
  readonly quarantinedBefore: Instant | null;
  /** Files of records that were deleted before. */
  readonly filesBefore: Instant | null;
  /** Versions that ended before, of an entity whose versions are kept now. */
  readonly versionsBefore: Instant | null;
  /** Amount past its retention that a guard keeps; noted for readers. */
  readonly withheld: number;
}

export interface ExpireRequest extends Pick<PurgeRequest, 'removeFile' | 'signal'> {
  readonly entities: readonly Retention[];
  /** Whether entities that were checked within a day are included. */
  readonly isAsked: boolean;
}

export interface ExpiredOf extends Pick<PurgedOf, 'entity' | 'rows' | 'quarantined' | 'files'> {
  readonly versions: number;
}

/** Expired data, and the totals that it is part of. */
export interface DueOf extends ExpiredOf {
  readonly of: Pick<ExpiredOf, 'rows' | 'files' | 'versions'>;
}

/** Amount of an entity's data past its retention that is kept until a person allows its removal. */
export interface WithheldOf {
  readonly entity: EntityName;
  readonly withheld: number;
}

export interface PurgedKeys {
  readonly entity: EntityName;
  /** Keys as in `PreparedRecord.keyText`; records that are not stored are noted too. */
  readonly keyTexts: readonly string[];
  /** Selects quarantined records to remove, by their text, whatever their key. */
  readonly isRefusedMeant?: ((record: string) => boolean) | undefined;
}

export interface PurgeRequest {
  /** One of each entity: they are one purge, with one action for each. */
  readonly of: readonly PurgedKeys[];
  /** The next sync may store the records again. */
  readonly canReturn: boolean;
  /** Names of the targets that the connector is published into. */
  readonly targets: readonly string[];
  readonly removeFile: (entity: EntityName, file: string) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Data of an entity that is, or would be, removed. */
export interface PurgedOf {
  readonly entity: EntityName;
  /** Tombstones included. */
  readonly rows: number;
  /** Records in quarantine. */
  readonly quarantined: number;
  readonly files: number;
  /** Listings below the records, with their progress. */
  readonly listings: number;
}

/**
 * `lines`: files of a JSONL sink still hold lines of the record. `space`: so may freed pages of the database.
 * `target:<name>`: so may the target of that name.
 */
export type PurgeStep = 'lines' | 'space' | `target:${string}`;

/** Work that a purge has left, as the ledger has it. */
export interface PurgeWork {
  readonly connector: ConnectorName;
  readonly step: PurgeStep;
  readonly entity: EntityName;
  readonly since: Instant;
}

/** The targets in which purges are not finished. */
export function targetNames(work: readonly Pick<PurgeWork, 'step'>[]): readonly string[] {
  const names = work.flatMap(({ step }) =>
    step.startsWith('target:') ? [step.slice('target:'.length)] : [],
  );
  return [...new Set(names)];
}

export interface LeftStep extends PurgeWork {
  /** Reason why the step could not be done now. */
  readonly why: string;
}

/** Name in the purge note of a record without a known key: no key is such a text. */
export function refusedName(record: string): string {
  return `#${createHash('sha256').update(record).digest('hex')}`;
}

export interface PurgeNote {
  readonly at: Instant;
  readonly who: string;
  /** The next sync may store the record again. */
  readonly canReturn: boolean;
}

export type AdoptedIdentity = Pick<ConnectorIdentity, 'connector' | 'baseUrl' | 'connectorId' | 'definition'>;

export interface ResetScope {
  /** Null: the whole connector. */
  readonly entity: EntityName | null;
  /** The entity's tables as the definition declares them; empty where `entity` is null. */
  readonly tables: readonly EntityTable[];
  readonly withData: boolean;
  readonly now: Instant;
}

export interface ResetCounts {
  readonly partitions: number;
  /** Rows that were dropped; 0 without `withData`. */
  readonly rows: number;
}

/** Names of the sinks in the config, for people. */
export interface CopyWay {
  readonly from: string;
  readonly to: string;
}

export interface CopyHow extends CopyWay {
  readonly connector: ConnectorName;
  readonly holder: Holder;
  /** The copy continues when it has resolved, and ends where it rejects. */
  readonly onProgress: (progress: CopyProgress) => void | Promise<void>;
  readonly signal: AbortSignal;
}

/** After each batch. */
export interface CopyProgress {
  /** The entity whose records are copied; null: the sync state. */
  readonly entity: EntityName | null;
  /** Rows stored in the target, deleted ones and those of earlier processes included. */
  readonly rows: number;
  /** Rows in the source. */
  readonly allRows: number;
}

/** A copy that has begun and is not finished. The data of the connector stored so far is used for nothing else. */
export interface UnfinishedCopy extends CopyWay {
  readonly connector: ConnectorName;
  readonly since: Instant;
}

/** A connector whose syncs continue in the sink that it was copied into. The data stored here stays as it was. */
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

/** Mask under which the records of an entity are stored. */
export interface PlannedMask {
  readonly entity: EntityName;
  /** Changes with its rules and its key. */
  readonly mask: string;
  /** Identifies the key. */
  readonly keyId: string;
}

/** Mask of stored records, and the time before which other data may be stored. */
export interface StoredMask extends PlannedMask {
  /** When the first run with it began. Null: nothing was stored before it. */
  readonly since: Instant | null;
  /** When the entity had been read whole with it; null: not yet. */
  readonly readAt: Instant | null;
  /** Deleted rows, whenever they were deleted: no read brings them again. */
  readonly deleted: number;
  /** Quarantined records from before it. */
  readonly quarantined: number;
}

export interface MaskRequest {
  readonly masks: readonly PlannedMask[];
  readonly maskings: readonly EntityMasking[];
  /** Null: the file is removed. Resolves where that is done already. */
  readonly renameFile: (entity: EntityName, from: string, to: string | null) => Promise<void>;
  readonly targets: PurgeRequest['targets'];
  readonly signal: AbortSignal;
}

/** Mask of a table for stored data. Each function returns values that are hashes already unchanged. */
export interface EntityMasking {
  readonly entity: EntityName;
  /** The entity whose mask it is: of a table of elements the one that they came with. */
  readonly of: EntityName;
  /** The members of a row, by column. The same object where nothing changes. */
  readonly row: (members: JsonObject) => JsonObject;
  /** Masks a record as it came, or its part in `_extra`. */
  readonly record: (value: JsonValue) => JsonValue;
  /** Null: the row stays as it is. */
  readonly cells: (
    columns: readonly Column[],
    row: Pick<RowFacts, 'values' | 'extra'>,
  ) => Pick<RowFacts, 'values' | 'extra'> | null;
  /** Masks the facts about a record's file. */
  readonly file: (said: Pick<RecordFile, 'name' | 'contentType'>) => Pick<RecordFile, 'name' | 'contentType'>;
  /** The version of a file is a hash of masked fields. */
  readonly hidesVersions: boolean;
}

/** Data of an entity that is, or would be, removed because its stored keys are not those of the masks. */
export interface RemovedOf {
  readonly entity: EntityName;
  /** Deleted ones included. */
  readonly rows: number;
  /** No read brings these again, nor versions. */
  readonly deleted: number;
  readonly versions: number;
}

/** Data of an entity that is, or would be, rewritten; of `files`, only their names. */
export interface RewrittenOf extends ExpiredOf {
  /** Lines of a JSONL sink. */
  readonly lines: number;
}

export interface MaskEnd {
  /** If not empty, nothing was rewritten so far. */
  readonly removed: readonly RemovedOf[];
  readonly entities: readonly RewrittenOf[];
  /** Texts of listings and runs: positions and messages of failures. */
  readonly texts: number;
  readonly left: readonly LeftStep[];
}
