import { keyPartsOf } from '../../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { standing } from '../../decisions/standing.ts';
import type { Doubt } from '../../partition.ts';
import type { DoubtedListings, ListingsOf } from '../../run-report.ts';
import { parseParams, parseReportedDoubt } from '../../stored-json.ts';
import type { RecordTables } from '../driver.ts';
import { openStoredTable, storedTable } from '../tables.ts';
import { columnOf, type Tx } from '../../../sql/database.ts';

/** Of those connectors or of all. `window`: of a backfill; '' for living listings. */
export interface OfListings {
  readonly only?: readonly ConnectorName[] | undefined;
  readonly window?: string;
  /** Absent: records and listings that collide are not named. */
  readonly records?: RecordTables | undefined;
}

type Of<Found> = readonly (Found & { readonly connector: ConnectorName })[];

interface DoubtedRow {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly listings: number;
  readonly params: string;
  readonly doubt: string;
}

/** Listings whose last walk ended with a doubt. */
export async function readDoubted(tx: Tx, of: OfListings): Promise<Of<DoubtedListings>> {
  const rows = await tx.rows<DoubtedRow>(
    `SELECT connector, entity, listings, params, doubt FROM (
       SELECT connector, entity, params, doubt, count(*) OVER of_entity AS listings,
         row_number() OVER (of_entity ORDER BY CAST({json doubt runs} AS numeric) DESC,
           CAST({json doubt total} AS numeric) - CAST({json doubt shown} AS numeric) DESC NULLS LAST, id) AS place
       FROM (SELECT id, connector, entity, params, {json proof doubt} AS doubt ${fromListings(of)}
         AND proof LIKE '%"doubt":%') AS doubted
       WINDOW of_entity AS (PARTITION BY connector, entity)
     ) AS placed WHERE place = 1 ORDER BY connector, entity`,
    valuesOf(of),
  );
  const { records } = of;
  return await Promise.all(
    rows.map(async ({ doubt: text, params, ...row }) => {
      const { doubt, runs } = parseReportedDoubt(text);
      const named = records === undefined ? doubt : await nameCollision(tx, records, { ...row, doubt });
      return { ...row, params: parseParams(params), doubt: named, runs };
    }),
  );
}

/** A collision with the record's key and the other listing, of which the ledger keeps numbers: while both are there. */
async function nameCollision(
  tx: Tx,
  records: RecordTables,
  of: { readonly connector: ConnectorName; readonly entity: EntityName; readonly doubt: Doubt },
): Promise<Doubt> {
  const { doubt } = of;
  if (doubt.kind !== 'collision') return doubt;
  const row = (await (await openStoredTable(tx, records, of))?.rows(tx, [doubt.row]))?.get(doubt.row);
  const names = (await storedTable(tx, of))?.key ?? [];
  const parts = keyPartsOf(row?.keyText ?? '', names.length);
  const [other] = await columnOf<string>(tx, 'SELECT params FROM _sync_partitions WHERE id = :other', {
    other: doubt.other,
  });
  return {
    ...doubt,
    ...(parts && { key: Object.fromEntries(names.map((name, index) => [name, parts[index] ?? null])) }),
    ...(other !== undefined && { params: parseParams(other) }),
  };
}

/** Listings that were read to their end in unknown order, where no total agreed. */
export async function readUnconfirmed(tx: Tx, of: OfListings): Promise<Of<ListingsOf>> {
  return await tx.rows(
    `SELECT connector, entity, count(*) AS listings ${fromListings(of)}
       AND proof LIKE '%"isOrdered":false%' AND proof NOT LIKE '%"isCounted":true%' AND proof NOT LIKE '%"doubt":%'
     GROUP BY connector, entity ORDER BY connector, entity`,
    valuesOf(of),
  );
}

/** Without roots of other settings, which nothing leads to now. */
function fromListings({ only }: OfListings): string {
  return `FROM _sync_partitions AS one
    WHERE ${only === undefined ? '' : 'connector IN {only text} AND'} backfill = :window AND tree IS NULL
      AND gone = ${standing.live}
      AND (parent_key IS NOT NULL OR NOT EXISTS (SELECT 1 FROM _sync_partitions AS root
        WHERE root.connector = one.connector AND root.entity = one.entity AND root.backfill = one.backfill
          AND root.tree IS NULL AND root.parent_key IS NULL AND root.origin > one.origin))`;
}

function valuesOf({ only, window = '' }: OfListings) {
  return { window, ...(only === undefined ? {} : { only }) };
}
