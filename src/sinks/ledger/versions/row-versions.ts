import type { Instant } from '../../../core/clock.ts';
import type { OfEntity } from '../../../core/names.ts';
import type { Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import type { RowVersion } from '../../row-history.ts';
import { historyName } from '../../records/version-names.ts';
import type { RecordTables } from '../driver.ts';
import { versionedEntities } from './versions.ts';

/** For people. */
const mostShown = 10;

interface VersionRow extends Readonly<Record<string, unknown>> {
  readonly seq: number;
  readonly validFrom: Instant;
  readonly validTo: Instant | null;
  readonly deletedAt: Instant | null;
}

/** The newest versions of a row, newest first; null where the entity's rows have none. */
export async function readRowVersions(
  tx: Tx,
  records: Pick<RecordTables, 'tableName' | 'keepsVersions'>,
  { connector, entity }: OfEntity,
  { row, columns }: { readonly row: number; readonly columns: readonly Column[] },
): Promise<readonly RowVersion[] | null> {
  if (!records.keepsVersions || !(await versionedEntities(tx, connector)).has(entity)) return null;
  const names = [...columns.map(({ name }) => name), '_extra'];
  const found = await tx.rows<VersionRow>(
    `SELECT _seq AS seq, _valid_from AS valid_from, _valid_to AS valid_to, _deleted_at AS deleted_at,
       ${names.map((name, index) => `CAST(${quoted(name)} AS text) AS c${index}`).join(', ')}
     FROM ${quoted(historyName(records.tableName(connector, entity)))}
     WHERE _row = :row ORDER BY _seq DESC LIMIT :limit`,
    { row, limit: mostShown + 1 },
  );
  return found.slice(0, mostShown).map((version, index) => {
    const before = found[index + 1];
    const { seq, validFrom, validTo, deletedAt } = version;
    return {
      seq,
      validFrom,
      validTo,
      isDeleted: deletedAt !== null,
      changed:
        before === undefined
          ? null
          : names.filter((_, column) => version[`c${column}`] !== before[`c${column}`]),
    };
  });
}
