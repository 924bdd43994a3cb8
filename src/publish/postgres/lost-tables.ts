import { quoted } from '../../sql/quoted.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { PublishedEntity } from '../manifest.ts';
import { givenShape, shapeProblem, tableThere, type KnownShape } from './table-there.ts';

interface KnownTable extends KnownShape {
  readonly name: string;
  /** Live and deleted ones. */
  readonly rows: number;
}

/** Of a table with more rows, it is only known that so many are there. */
const mostCounted = 10_000;

/**
 * Tables of these entities that are gone, have lost a column or their index, or have fewer rows than were published.
 */
export async function lostTables(
  tx: Tx,
  at: string,
  entities: readonly Pick<PublishedEntity, 'connector' | 'entity'>[],
): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const { connector, entity } of entities) {
    const known = await tx.first<KnownTable>(
      `SELECT table_name AS name, key, columns, has_long_keys, live_rows + deleted_rows AS rows
       FROM ${at}_published_tables WHERE connector = :connector AND entity = :entity`,
      { connector, entity },
    );
    if (known === undefined) {
      lost.push(`_published_tables does not list ${connector}/${entity}, which was published`);
      continue;
    }
    const table = `${at}${quoted(known.name)}`;
    const problem = shapeProblem(givenShape(known), await tableThere(tx, table));
    if (problem !== null) {
      lost.push(`table ${known.name} ${problem}`);
      continue;
    }
    const needed = Math.min(known.rows, mostCounted);
    const found = await tx.first<{ readonly rows: number }>(
      `SELECT count(*) AS rows FROM (SELECT 1 FROM ${table} LIMIT ${needed}) AS counted`,
    );
    if ((found?.rows ?? 0) < needed) {
      lost.push(`table ${known.name} should have ${known.rows} rows, and has ${found?.rows ?? 0}`);
    }
  }
  return lost;
}
