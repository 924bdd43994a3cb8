import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../../core/names.ts';
import type { EntityTable, Column } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';
import { historyName } from '../../records/own-names.ts';
import { parseFailure, parseParams } from '../../stored-json.ts';
import { standing } from '../../decisions/standing.ts';
import type { MissingRow, PartitionHistory, RowHistory, RowVersion } from '../../row-history.ts';
import { grouped } from '../../../core/grouped.ts';
import { readsAgree } from '../deletes/noted-rows.ts';
import type { RecordTables } from '../driver.ts';
import type { Tx } from '../../../sql/database.ts';
import { openStoredTable, storedTable } from '../tables.ts';
import { versionedEntities } from '../versions/versions.ts';

/** What is known of a single row, and of the partition that shows it; null where the key is not stored. */
export async function readRowHistory(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): Promise<RowHistory | null> {
  const { entity } = table;
  const stored = await storedTable(tx, { connector, entity });
  if (stored === undefined) return null;
  const found = await records.row(tx, connector, table, keyText);
  if (found === undefined) return null;
  const { run, owner, ...row } = found;
  const [missing] = await tx.rows<NotedRow>(
    `${missingSql()} AND m.connector = :connector AND m.entity = :entity AND m.row = :row`,
    { connector, entity, row: row.row },
  );
  const versions = await readRowVersions(
    tx,
    records,
    { connector, entity },
    { row: row.row, columns: stored.columns },
  );
  return {
    ...row,
    changedByRun: run,
    missing: missing === undefined ? null : missingRow(missing, keyText),
    partition: owner === null ? null : await readPartition(tx, owner),
    ...(versions === null ? {} : { versions }),
  };
}

interface PartitionRow extends Omit<PartitionHistory, 'params' | 'failure' | 'isGone'> {
  readonly params: string;
  readonly failure: string | null;
  readonly gone: number;
}

async function readPartition(tx: Tx, id: number): Promise<PartitionHistory | null> {
  const found = await tx.first<PartitionRow>(
    `SELECT entity, params, mode, watermark, marker, sealed_at, sealed_run, full_at, found_at, due_since, failure, gone
     FROM _sync_partitions WHERE id = :id`,
    { id },
  );
  if (found === undefined) return null;
  const { params, failure, gone, ...partition } = found;
  return {
    ...partition,
    params: parseParams(params),
    failure: failure === null ? null : parseFailure(failure),
    isGone: gone === standing.ended || gone === standing.emptied,
  };
}

/** Rows that seem deleted upstream and are not tombstoned, by entity; at most `limit`. */
export async function readMissing(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  limit: number,
): Promise<readonly MissingRow[]> {
  const noted = await tx.rows<NotedRow>(
    `${missingSql()} AND m.connector = :connector ORDER BY m.entity, m.row LIMIT :limit`,
    { connector, limit },
  );
  const keys = new Map<EntityName, ReadonlyMap<number, { readonly keyText: string }>>();
  for (const [entity, ofEntity] of grouped(noted, (one) => one.entity)) {
    const rows = ofEntity.map(({ row }) => row);
    const table = await openStoredTable(tx, records, { connector, entity });
    if (table !== undefined) keys.set(entity, await table.rows(tx, rows));
  }
  return noted.flatMap((one) => {
    const keyText = keys.get(one.entity)?.get(one.row)?.keyText;
    return keyText === undefined ? [] : [missingRow(one, keyText)];
  });
}

interface NotedRow extends Omit<MissingRow, 'keyText'> {
  readonly row: number;
}

function missingRow({ entity, missingSince, needs, missedWalks }: NotedRow, keyText: string): MissingRow {
  return { entity, missingSince, needs, missedWalks, keyText };
}

function missingSql(): string {
  return `SELECT m.entity, m.row, m.since AS missing_since, m.missed AS missed_walks,
      CASE WHEN ${readsAgree} THEN 'nothing' ELSE m.needs END AS needs
    FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
    WHERE m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})`;
}

/** For people. */
const mostShown = 10;

interface VersionRow extends Readonly<Record<string, unknown>> {
  readonly seq: number;
  readonly validFrom: Instant;
  readonly validTo: Instant | null;
  readonly deletedAt: Instant | null;
}

/** The newest versions of a row, newest first; null where the entity's rows have none. */
async function readRowVersions(
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
