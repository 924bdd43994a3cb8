import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Retention } from '../../purges.ts';
import type { Ledger } from '../ledger.ts';
import { countEndedVersions, deleteEndedVersions } from '../versions/closed-versions.ts';
import { versionedEntities } from '../versions/versions.ts';

const versionsAtOnce = 2_000;

/** Of which table what is too old. */
export interface Expiring {
  readonly ledger: Ledger;
  readonly connector: ConnectorName;
  readonly retention: Retention;
  /** As it is stored. */
  readonly table: EntityTable;
}

export async function countOldVersions(tx: Tx, of: Expiring): Promise<number> {
  const before = await versionsBefore(tx, of);
  const { ledger, connector, table } = of;
  if (before === null) return 0;
  return await countEndedVersions(tx, ledger.records, { connector, entity: table.entity }, before);
}

/** The oldest ones first; gives how many, 0 where there are no more. */
export async function removeOldVersions(tx: Tx, of: Expiring): Promise<number> {
  const before = await versionsBefore(tx, of);
  const { ledger, connector, table } = of;
  if (before === null) return 0;
  const what = { before, limit: versionsAtOnce };
  return await deleteEndedVersions(tx, ledger.records, { connector, entity: table.entity }, what);
}

/** Null where there are none, and where they were switched off: then they stay. */
async function versionsBefore(tx: Tx, { connector, table, retention }: Expiring): Promise<Instant | null> {
  if (retention.versionsBefore === null) return null;
  const known = (await versionedEntities(tx, connector)).get(table.entity);
  return known?.endedAt === null ? retention.versionsBefore : null;
}
