import type { Instant } from '../core/clock.ts';
import type { RunId, EntityName, ConnectorName } from '../core/names.ts';
import type { ColumnValue, Column, JsonType } from '../core/records.ts';

/* Facts that a sink gives its readers: records, the history of a row, fields that a definition does not declare. */

/** `values`: in the order of `EntityTable.columns`. */
export interface StoredRecord extends Pick<RowFacts, 'seq' | 'changedAt' | 'run' | 'values' | 'extra'> {
  /** A tombstone: only the key's values are sure to be there. */
  readonly isDeleted: boolean;
}

/** A row, as it is compared with the one of the same key in another sink. */
export interface ComparedRow {
  /** Key, as in `PreparedRecord.keyText`. */
  readonly keyText: string;
  /** As in `PreparedRecord`. */
  readonly hash: string;
  /** Digest of the row's values. */
  readonly digest: string;
}

/** The sink's own columns of a row, with its values. */
export interface RowFacts {
  readonly row: number;
  readonly firstSeenAt: Instant;
  readonly changedAt: Instant;
  readonly run: RunId;
  readonly seq: number;
  /** `storedHash` of the record. */
  readonly hash: string;
  readonly deletedAt: Instant | null;
  /** Id of its partition. */
  readonly owner: number | null;
  readonly extra: string | null;
  /** In the order of the table's columns; booleans are 0 and 1, integers may be bigint. */
  readonly values: readonly ColumnValue[];
}

export interface MissingRow {
  readonly entity: EntityName;
  readonly keyText: string;
  readonly missingSince: Instant;
  /** Confirmation that its delete still needs: nothing (withheld by a guard), a `get`, another full walk. */
  readonly needs: 'nothing' | 'get' | 'walk';
  readonly missedWalks: number;
}

export interface KnownDrift {
  readonly evolved: readonly Column[];
  /** Undeclared fields that were met before and stored. `*` among them stands for all that are no longer named. */
  readonly fields: ReadonlySet<string>;
  /** Field -> types of its values that were stored although they do not fit its column. */
  readonly misfits: ReadonlyMap<string, ReadonlySet<JsonType>>;
  /** The entity has been read whole at least once: a field that was not known is a change. */
  readonly isEstablished: boolean;
}

/** A field that is not declared, or whose values do not fit it, since an entity was read for the first time. */
export interface FieldNews extends Pick<DriftRow, 'connector' | 'entity' | 'field' | 'kind' | 'types'> {
  readonly since: Instant;
  /** A column was added for the field. */
  readonly hasColumn: boolean;
  /** Only records that could not be stored have it so far. */
  readonly isRefused: boolean;
}

/** `members.nickname: undeclared`: one of a connector's news and no other. */
export function newsName({ entity, field, kind }: Pick<FieldNews, 'entity' | 'field' | 'kind'>): string {
  return `${entity}.${field}: ${kind}`;
}

/** Period during which people are shown new fields of a connector. */
export const newForMs = 14 * 24 * 60 * 60 * 1_000;

/** Row of `schema diff`. */
export interface DriftRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** `*` stands for those beyond the first 200 of the entity. */
  readonly field: string;
  /** JSON types met, in order of first meeting. */
  readonly types: readonly JsonType[];
  readonly kind: 'undeclared' | 'misfit';
  readonly firstSeenAt: Instant;
  readonly firstRun: RunId;
  readonly place: 'extra' | 'column' | 'quarantine';
}
