import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { ConnectorOverview, ConnectorStatus, EntityStatus } from '../sinks/ledger-reader.ts';
import type { LedgerReader } from '../sinks/sink-access.ts';
import { counted } from '../telemetry/format.ts';

/** The entity whose state is read: a table, and the entity whose listing its rows come from. */
interface StatedEntity {
  readonly target: {
    readonly connector: { readonly name: ConnectorName };
    readonly entity: { readonly name: EntityName };
    readonly table: { readonly entity: EntityName };
  };
}

/** Reliability of an entity's stored data. */
export interface EntityState {
  readonly rows: number;
  readonly completeness: NonNullable<EntityStatus['completeness']>;
  /** Changes made in the service before this time are stored. Null: the entity was never read completely. */
  readonly asOf: Instant | null;
  /** Why more, fewer or other records may exist in the service. Empty: the listing is complete as of then. */
  readonly doubts: readonly string[];
  /** Rows that look deleted in the service and are kept: until a person allows it, and until a later run is certain. */
  readonly withheld: number;
  readonly pending: number;
}

/** State of an entity of a connector, according to the connector's ledger. */
export function stateOf(
  { target }: StatedEntity,
  status: Pick<ConnectorStatus, 'entities' | 'lastRun'> | null,
  freshness: ConnectorOverview['freshness'],
): EntityState {
  // The elements of records are read with them.
  const { entity: owner, table } = target;
  const statusOf = (name: EntityName): EntityStatus | undefined =>
    status?.entities.find(({ entity }) => entity === name);
  const walked = statusOf(owner.name);
  const asOf = freshness.find(({ entity }) => entity === owner.name)?.asOf ?? null;
  const completeness = walked?.completeness ?? (asOf === null ? 'not-yet' : 'complete');
  const missing = statusOf(table.entity)?.missing ?? 0;
  const report = status?.lastRun?.report?.entities.find(({ entity }) => entity === table.entity);
  const withheld = Math.min(missing, report?.withheld ?? 0);
  const parts: readonly (readonly [number, string])[] = [
    [asOf === null ? 1 : 0, 'never read completely'],
    [walked?.due ?? 0, `${counted(walked?.due ?? 0, 'listing')} still to be read`],
    [walked?.partMissing?.listings ?? 0, 'part missing: the service may have records that it did not show'],
    [completeness === 'unconfirmed' ? 1 : 0, 'unconfirmed: read to the end, and the service offers no proof'],
    [walked?.quarantined ?? 0, `${counted(walked?.quarantined ?? 0, 'record')} could not be stored`],
  ];
  return {
    rows: statusOf(table.entity)?.rows ?? 0,
    completeness,
    asOf,
    doubts: parts.flatMap(([number, text]) => (number === 0 ? [] : [text])),
    withheld,
    pending: missing - withheld,
  };
}

/** In the state that the reader reads. */
export async function readState(history: LedgerReader, shown: StatedEntity): Promise<EntityState> {
  const connector: ConnectorName = shown.target.connector.name;
  const [status = null] = await history.connectors([connector]);
  return stateOf(shown, status, await history.freshness(connector));
}

/** The facts with which every answer about an entity begins. */
export function stateFacts({ asOf, completeness, doubts, withheld, pending }: EntityState) {
  return {
    as_of: asOf,
    complete: doubts.length === 0,
    completeness,
    ...(doubts.length === 0 ? {} : { not_complete: doubts }),
    ...(withheld === 0 ? {} : { withheld_deletes: withheld }),
    ...(pending === 0 ? {} : { maybe_deleted: pending }),
  };
}

/** Null if one of them was never read completely. */
export function oldestOf(states: readonly EntityState[]): EntityState['asOf'] {
  return states.reduce<EntityState['asOf']>(
    (least, { asOf }, index) => (index === 0 || (asOf ?? '') < (least ?? '') ? asOf : least),
    null,
  );
}
