import { quoted } from '../../sql/quoted.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { chainProblems, lostTables } from '../chain-problems.ts';
import type { TargetCheck } from '../target.ts';
import { givenShape, shapeProblem, tableThere, type KnownShape } from './table-there.ts';
import { publicationsFrom, type PublicationRow } from './target-schema.ts';

interface KnownTable extends KnownShape {
  readonly connector: string;
  readonly entity: string;
  readonly name: string;
  /** Null: it has none. */
  readonly lostView: string | null;
  readonly liveRows: number;
  readonly deletedRows: number;
}

const publicationsAtOnce = 20;

/**
 * Compares every table, its columns, its index, its view and how many rows it has with what was published, and follows
 * the chain of manifests. In one state.
 */
export async function checkTables(tx: Tx, at: string): Promise<TargetCheck> {
  const problems: string[] = [];
  const chain = chainProblems();
  let publications = 0;
  let newest: PublicationRow | null = null;
  for (let from = 0; ;) {
    const rows: readonly PublicationRow[] = await publicationsFrom(tx, at, from, publicationsAtOnce);
    for (const row of rows) problems.push(...chain.next(row));
    publications += rows.length;
    newest = rows.at(-1) ?? newest;
    from = (rows.at(-1)?.number ?? 0) + 1;
    if (rows.length < publicationsAtOnce) break;
  }
  const tables = await tx.rows<KnownTable>(
    `SELECT connector, entity, table_name AS name, key, columns, has_long_keys, live_rows, deleted_rows,
       CASE WHEN to_regclass(:at || quote_ident(view_name)) IS NULL THEN view_name END AS lost_view
     FROM ${at}_published_tables ORDER BY table_name`,
    { at },
  );
  problems.push(...lostTables(newest, new Set(tables.map((one) => `${one.connector}/${one.entity}`))));
  let [rows, bytes] = [0, 0];
  for (const known of tables) {
    const { name, lostView, liveRows, deletedRows } = known;
    const table = `${at}${quoted(name)}`;
    const there = await tableThere(tx, table);
    const problem = shapeProblem(givenShape(known), there);
    if (problem !== null) problems.push(`table ${name} ${problem}`);
    if (lostView !== null) problems.push(`view ${lostView} is gone`);
    if (there?.columns.get('_deleted') !== 'boolean') continue;
    const found = await tx.first<{ live: number; deleted: number; bytes: number }>(
      `SELECT count(*) FILTER (WHERE NOT _deleted) AS live, count(*) FILTER (WHERE _deleted) AS deleted,
         pg_total_relation_size(to_regclass(:table)) AS bytes FROM ${table}`,
      { table },
    );
    const { live = 0, deleted = 0 } = found ?? {};
    rows += live + deleted;
    bytes += found?.bytes ?? 0;
    if (live !== liveRows || deleted !== deletedRows) {
      problems.push(
        `table ${name} should have ${liveRows} rows and ${deletedRows} deleted ones, and has ${live} and ${deleted}`,
      );
    }
  }
  return { publications, files: 0, rows, bytes, problems };
}
