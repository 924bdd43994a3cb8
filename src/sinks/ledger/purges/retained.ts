import type { Instant } from '../../../core/clock.ts';
import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../../core/names.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import type { WithheldOf } from '../../purges.ts';

/**
 * `_sync_retained`: what became of an entity's old rows. Deletes up to the change number `complete_after` may have been
 * removed: readers of later changes miss nothing. `checked_at`: when a run looked for what is too old last, `withheld`:
 * how much of that a guard kept.
 */
export const retainedSql = `
CREATE TABLE _sync_retained (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  complete_after BIGINT NOT NULL,
  checked_at TEXT,
  withheld BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (connector, entity)
);
`;

/** Deletes of the entity up to this change number may have been removed; 0: none was. */
export async function readCompleteAfter(
  tx: Tx,
  connector: ConnectorName,
  entity: EntityName,
): Promise<number> {
  const sql = `SELECT complete_after FROM _sync_retained WHERE connector = :connector AND entity = :entity`;
  return (await cellOf<number>(tx, sql, { connector, entity })) ?? 0;
}

/** `ConnectorOverview.withheldByAge`, of all connectors or of `only` these. */
export async function readWithheld(
  tx: Tx,
  only?: readonly ConnectorName[],
): Promise<ReadonlyMap<ConnectorName, readonly WithheldOf[]>> {
  const found = await tx.rows<WithheldOf & { readonly connector: ConnectorName }>(
    `SELECT connector, entity, withheld FROM _sync_retained
     WHERE withheld > 0 ${only === undefined ? '' : 'AND connector IN {only text}'} ORDER BY connector, entity`,
    only === undefined ? {} : { only },
  );
  return new Map(
    [...grouped(found, ({ connector }) => connector)].map(([connector, all]) => [
      connector,
      all.map(({ entity, withheld }) => ({ entity, withheld })),
    ]),
  );
}

/** Null: never. */
export async function readCheckedAt(tx: Tx, of: OfEntity): Promise<Instant | null> {
  const sql = `SELECT checked_at FROM _sync_retained WHERE connector = :connector AND entity = :entity`;
  return (await cellOf<Instant | null>(tx, sql, { ...of })) ?? null;
}

export async function noteCompleteAfter(tx: Tx, of: OfEntity, completeAfter: number): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_retained AS r (connector, entity, complete_after)
     VALUES (:connector, :entity, :completeAfter)
     ON CONFLICT (connector, entity) DO UPDATE SET complete_after = excluded.complete_after
     WHERE r.complete_after < excluded.complete_after`,
    { ...of, completeAfter },
  );
}

export async function noteChecked(
  tx: Tx,
  of: OfEntity,
  checked: { readonly at: Instant; readonly withheld: number },
): Promise<void> {
  await tx.run(
    `INSERT INTO _sync_retained (connector, entity, complete_after, checked_at, withheld)
     VALUES (:connector, :entity, 0, :at, :withheld)
     ON CONFLICT (connector, entity) DO UPDATE SET checked_at = excluded.checked_at, withheld = excluded.withheld`,
    { ...of, ...checked },
  );
}
