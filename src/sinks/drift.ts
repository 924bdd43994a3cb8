import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { Column, JsonType } from '../core/records.ts';

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
export interface FieldNews extends Pick<DriftRow, 'connector' | 'entity' | 'field' | 'kind'> {
  readonly since: Instant;
  /** A column was added for the field. */
  readonly hasColumn: boolean;
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
