import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import { parseFailure, parseParams } from '../../stored-json.ts';
import { standing } from '../../decisions/standing.ts';
import type { MissingRow, PartitionHistory, RowHistory } from '../../row-history.ts';
import { grouped } from '../../../core/grouped.ts';
import type { RecordTables } from '../driver.ts';
import type { Tx } from '../../../sql/database.ts';
import { openStoredTable, storedTable } from '../tables.ts';
import { readRowVersions } from '../versions/row-versions.ts';

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

/** Rows that seem deleted. */
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
      CASE WHEN m.needs = 'walk' AND m.missed >= 2 THEN 'nothing' ELSE m.needs END AS needs
    FROM _sync_missing AS m JOIN _sync_partitions AS p ON p.id = m.partition
    WHERE m.missed > 0 AND p.gone IN (${standing.live}, ${standing.emptied})`;
}
