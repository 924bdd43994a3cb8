import { quoted } from '../../sinks/postgres/records/names.ts';
import type { Tx } from '../../sinks/postgres/session.ts';
import { chainProblems } from '../chain-problems.ts';
import type { TargetCheck } from '../target.ts';
import { publicationsFrom, type PublicationRow } from './target-schema.ts';

interface KnownTable {
  readonly name: string;
  readonly isThere: boolean;
  readonly liveRows: number;
  readonly deletedRows: number;
}

const publicationsAtOnce = 20;

/** Counts the rows of every table, and follows the chain of manifests. In one state. */
export async function checkTables(tx: Tx, at: string): Promise<TargetCheck> {
  const problems: string[] = [];
  const chain = chainProblems();
  let publications = 0;
  for (let from = 0; ;) {
    const rows: readonly PublicationRow[] = await publicationsFrom(tx, at, from, publicationsAtOnce);
    for (const row of rows) problems.push(...chain.next(row));
    publications += rows.length;
    from = (rows.at(-1)?.number ?? 0) + 1;
    if (rows.length < publicationsAtOnce) break;
  }
  const tables = await tx.rows<KnownTable>(
    `SELECT table_name AS name, to_regclass(:at || quote_ident(table_name)) IS NOT NULL AS is_there, live_rows, deleted_rows
     FROM ${at}_published_tables ORDER BY table_name`,
    { at },
  );
  let [rows, bytes] = [0, 0];
  for (const { name, isThere, liveRows, deletedRows } of tables) {
    if (!isThere) {
      problems.push(`table ${name} is gone`);
      continue;
    }
    const table = `${at}${quoted(name)}`;
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
