import { createHash } from 'node:crypto';
import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';

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

/** Expired data, and the totals that it is part of. Totals are not counted where nothing has expired. */
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

export interface PurgeEnd {
  readonly at: Instant;
  readonly who: string;
  readonly entities: readonly PurgedOf[];
  /** Records that were noted: those asked for, and those below them that were stored. */
  readonly records: number;
  readonly left: readonly LeftStep[];
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

/** Notes of a sink about the purged records of a connector. */
export interface PurgeNotes {
  readonly count: number;
  noteOf(entity: EntityName, keyText: string): PurgeNote | null;
}
