import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';

/** Removes records for good, with all that the sink holds of them and of the records below them. */
export interface Purges {
  /** What a purge of these records would remove. Takes no lock and writes nothing. */
  look(connector: ConnectorName, of: PurgeRequest['of']): Promise<readonly PurgedOf[]>;
  /**
   * Removes the records, batch by batch, each in one transaction with the notes that keep the next sync from storing
   * them again. Repeated after a kill it removes the rest. Takes the connector. Throws `ConnectorBusyError`, and USAGE
   * where the sink holds nothing of the connector.
   */
  purge(connector: ConnectorName, asked: PurgeRequest): Promise<PurgeEnd>;
  /**
   * Does what a purge has left to do: rewrites lines, gives freed space back. Gives the steps that could not be done
   * now, with the reason. Takes the connector only where there is something to do.
   */
  complete(connector: ConnectorName): Promise<readonly LeftStep[]>;
  /** What `expire` would remove. Takes no lock and writes nothing. Without entities that were checked within a day. */
  expired(
    connector: ConnectorName,
    asked: Pick<ExpireRequest, 'entities' | 'isAsked'>,
  ): Promise<readonly DueOf[]>;
  /**
   * Removes what is too old, batch by batch, each in one transaction. Takes the connector. Throws `ConnectorBusyError`.
   */
  expire(connector: ConnectorName, asked: ExpireRequest): Promise<readonly ExpiredOf[]>;
}

/** Of one entity, what is too old; null: nothing is. */
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
  /** What a guard keeps though it is too old: noted for readers. */
  readonly withheld: number;
}

export interface ExpireRequest extends Pick<PurgeRequest, 'removeFile' | 'signal'> {
  readonly entities: readonly Retention[];
  /** Also those that were checked within a day. */
  readonly isAsked: boolean;
}

export interface ExpiredOf extends Pick<PurgedOf, 'entity' | 'rows' | 'quarantined' | 'files'> {
  readonly versions: number;
}

/** What is too old, and how much there is with it; where nothing is too old it is not counted. */
export interface DueOf extends ExpiredOf {
  readonly of: Pick<ExpiredOf, 'rows' | 'files' | 'versions'>;
}

/** How much of an entity is too old, and is kept until a person lets it go. */
export interface WithheldOf {
  readonly entity: EntityName;
  readonly withheld: number;
}

export interface PurgedKeys {
  readonly entity: EntityName;
  /** As `PreparedRecord.keyText`; records that are not stored are noted all the same. */
  readonly keyTexts: readonly string[];
}

export interface PurgeRequest {
  /** One of each entity: they are one purge, with one action for each. */
  readonly of: readonly PurgedKeys[];
  /** The next sync may store the records again. */
  readonly canReturn: boolean;
  readonly removeFile: (entity: EntityName, file: string) => Promise<void>;
  readonly signal: AbortSignal;
}

/** What is, or would be, removed of an entity. */
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
  /** Of the records asked for, and of those below them that were stored. */
  readonly records: readonly PurgedRecord[];
  readonly left: readonly LeftStep[];
  readonly seal: PurgeSeal;
}

/** A record by a keyed hash: without the secret it does not give the key away. */
export interface PurgedRecord {
  readonly entity: EntityName;
  /** HMAC-SHA-256 in hex. */
  readonly hmac: string;
}

/** Signs reports, and names records, with the secret of the connector's purges. */
export interface PurgeSeal {
  readonly keyId: string;
  /** HMAC-SHA-256 of a text in hex. */
  sign(text: string): string;
}

export const purgeSteps = ['lines', 'space'] as const;
/** `lines`: files of a JSONL sink still hold lines of the record. `space`: so may freed pages of the database. */
export type PurgeStep = (typeof purgeSteps)[number];

export interface LeftStep {
  readonly step: PurgeStep;
  readonly entity: EntityName;
  readonly since: Instant;
  /** Why it could not be done now; null: it was not tried. */
  readonly why: string | null;
}

export interface PurgeNote {
  readonly at: Instant;
  readonly who: string;
  /** The next sync may store the record again. */
  readonly canReturn: boolean;
}

/** What a sink knows of the purged records of a connector. */
export interface PurgeNotes {
  readonly seal: PurgeSeal;
  readonly count: number;
  noteOf(entity: EntityName, keyText: string): PurgeNote | null;
}

/** What the HMAC of a record is made of. */
export function purgedName(entity: EntityName, keyText: string): string {
  return `${entity}\n${keyText}`;
}
