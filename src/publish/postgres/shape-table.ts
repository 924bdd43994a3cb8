import { quoted, tableName } from '../../sinks/postgres/records/names.ts';
import { binaryType, sqlType } from '../../sinks/postgres/records/types.ts';
import type { Tx } from '../../sinks/postgres/session.ts';
import type { PublishedColumn } from '../manifest.ts';
import type { PlannedEntity } from '../target.ts';
import { columnsSql } from './row-columns.ts';
import { incompatible } from './target-error.ts';

/** What is done to an entity's table before rows come into it. */
export interface TablePlan {
  /** `empty`: the table stays, with what others have attached to it; its rows go. `replace`: another one takes its place. */
  readonly kind: 'make' | 'replace' | 'empty' | 'keep';
  readonly name: string;
  /** Columns that it lacks, where it stays. */
  readonly added: readonly PublishedColumn[];
  /** All that it has then: also those that are not published any more, which stay null. */
  readonly columns: readonly TableColumn[];
  /** Its unique index is on hashes of the key's texts. */
  readonly hasLongKeys: boolean;
}

export type TableColumn = Pick<PublishedColumn, 'name' | 'type'>;

interface KnownTable {
  readonly key: string;
  readonly columns: string;
  readonly hasLongKeys: boolean;
}

/**
 * Compares the table with the one that is needed, and locks nothing. Throws `SyncError` TARGET_INCOMPATIBLE where a table of that name is another
 * program's, or somebody changed ours so that it does not hold what was published, unless a new generation replaces it.
 */
export async function planTable(
  tx: Tx,
  { at, place }: { readonly at: string; readonly place: string },
  entity: PlannedEntity,
): Promise<TablePlan> {
  const { connector, entity: name, key } = entity;
  const table = tableName(connector, name);
  const published = entity.columns.map(({ name: column, type }) => ({ name: column, type }));
  const [known, there] = await Promise.all([
    tx.first<KnownTable>(
      `SELECT key, columns, has_long_keys FROM ${at}_published_tables WHERE connector = :connector AND entity = :name`,
      { connector, name },
    ),
    columnsThere(tx, `${at}${quoted(table)}`),
  ]);
  const fresh = { name: table, added: [], columns: published, hasLongKeys: false };
  if (known === undefined) {
    if (there === null || (await isOwnView(tx, at, table))) return { kind: 'make', ...fresh };
    throw incompatible(
      place,
      `it has a table ${table} that is not of a publication`,
      'Rename that table, or name another schema.',
    );
  }
  const had = JSON.parse(known.columns) as readonly TableColumn[];
  const problem = problemOf(
    { key: known.key, columns: had },
    { key: JSON.stringify(key), columns: published },
    there,
  );
  if (problem === null) {
    const added = entity.columns.filter((column) => !had.some((one) => one.name === column.name));
    const columns = [...had, ...published.filter((column) => !had.some((one) => one.name === column.name))];
    const kind = entity.isNewGeneration ? 'empty' : 'keep';
    return { kind, name: table, added, columns, hasLongKeys: known.hasLongKeys };
  }
  if (entity.isNewGeneration) return { kind: there === null ? 'make' : 'replace', ...fresh };
  throw incompatible(place, `its table ${table} ${problem}`, 'Undo that, or publish with --new-generation.');
}

/** Why the table cannot take the rows; null where it can. */
function problemOf(
  had: { readonly key: string; readonly columns: readonly TableColumn[] },
  wanted: { readonly key: string; readonly columns: readonly TableColumn[] },
  there: ReadonlyMap<string, string> | null,
): string | null {
  if (there !== null && had.key !== wanted.key) {
    return `has the key ${had.key} and should have ${wanted.key}`;
  }
  const columns = had.columns.map(({ name, type }) => ({
    name,
    type: wanted.columns.find((column) => column.name === name)?.type ?? type,
  }));
  return shapeProblem(columns, there);
}

/** How a table differs from the columns that it was given; null where it has them. `there`: from `columnsThere`. */
export function shapeProblem(
  columns: readonly TableColumn[],
  there: ReadonlyMap<string, string> | null,
): string | null {
  if (there === null) return 'is gone';
  for (const { name, type } of columns) {
    const found = there.get(name);
    const needed = binaryType[type];
    if (found === undefined) return `has lost its column ${name}`;
    if (found !== needed) return `has ${found} in column ${name}, which should be ${needed}`;
  }
  return null;
}

/** Types by column; null where there is no such table or view. */
export async function columnsThere(tx: Tx, table: string): Promise<ReadonlyMap<string, string> | null> {
  const rows = await tx.rows<{ readonly name: string | null; readonly type: string }>(
    `SELECT a.attname::text AS name, format_type(a.atttypid, NULL) AS type
     FROM (SELECT to_regclass(:table) AS id) AS t
     LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
     WHERE t.id IS NOT NULL`,
    { table },
  );
  if (rows.length === 0) return null;
  return new Map(rows.flatMap(({ name, type }) => (name === null ? [] : [[name, type]])));
}

/** An entity `a` has a view of the name that the table of an entity `a_current` has. */
async function isOwnView(tx: Tx, at: string, name: string): Promise<boolean> {
  return (await tx.rows(`SELECT 1 FROM ${at}_published_tables WHERE view_name = :name`, { name })).length > 0;
}

/** Changes the table as planned. A lock that keeps everybody from it lasts until the end of the transaction. */
export async function shapeTable(tx: Tx, at: string, plan: TablePlan, entity: PlannedEntity): Promise<void> {
  const { kind, name, added } = plan;
  const table = `${at}${quoted(name)}`;
  const view = `${name}_current`;
  if (kind === 'make' || kind === 'replace') {
    const grants = await grantsOn(tx, at, [name, view]);
    await dropView(tx, at, name);
    await dropView(tx, at, view);
    if (kind === 'replace') tx.put(`DROP TABLE ${table}`);
    tx.put(`CREATE TABLE ${table} (${columnsSql(entity)})`);
    await note(tx, at, plan, entity);
    await makeView(tx, at, plan, view);
    for (const grant of grants) tx.put(grant);
    return;
  }
  // TRUNCATE would show an empty table to those who read an earlier state.
  if (kind === 'empty') tx.put(`DELETE FROM ${table}`);
  if (added.length > 0) {
    const columns = added.map((column) => `ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`);
    tx.put(`ALTER TABLE ${table} ${columns.join(', ')}`);
    await makeView(tx, at, plan, view);
  }
  await note(tx, at, plan, entity);
}

async function note(tx: Tx, at: string, plan: TablePlan, entity: PlannedEntity): Promise<void> {
  await tx.run(
    `INSERT INTO ${at}_published_tables AS t
       (connector, entity, table_name, generation, key, columns, has_long_keys, live_rows, deleted_rows)
     VALUES (:connector, :entity, :table, :generation, :key, :columns, :hasLongKeys, 0, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET generation = excluded.generation, key = excluded.key, columns = excluded.columns,
       has_long_keys = excluded.has_long_keys, live_rows = CASE WHEN :isKept THEN t.live_rows ELSE 0 END,
       deleted_rows = CASE WHEN :isKept THEN t.deleted_rows ELSE 0 END`,
    {
      connector: entity.connector,
      entity: entity.entity,
      table: plan.name,
      generation: entity.generation,
      key: JSON.stringify(entity.key),
      columns: JSON.stringify(plan.columns),
      hasLongKeys: plan.hasLongKeys,
      isKept: plan.kind === 'keep',
    },
  );
}

/** Rows that are not deleted, without what this program has added. Columns that come later stand behind the others, as a view can only have them. */
async function makeView(tx: Tx, at: string, { name, columns }: TablePlan, view: string): Promise<void> {
  const marked = await tx.run(
    `UPDATE ${at}_published_tables SET view_name = :view WHERE table_name = :name AND (view_name = :view OR to_regclass(:at || quote_ident(:view)) IS NULL)`,
    { name, view, at },
  );
  if (marked === 0) return;
  const shown = columns.map((column) => quoted(column.name)).join(', ');
  tx.put(
    `CREATE OR REPLACE VIEW ${at}${quoted(view)} AS SELECT ${shown} FROM ${at}${quoted(name)} WHERE NOT _deleted`,
  );
}

/** Only one that was made here. */
async function dropView(tx: Tx, at: string, view: string): Promise<void> {
  const dropped = await tx.run(`UPDATE ${at}_published_tables SET view_name = NULL WHERE view_name = :view`, {
    view,
  });
  if (dropped > 0) tx.put(`DROP VIEW IF EXISTS ${at}${quoted(view)}`);
}

/** Statements that give others the rights again that they have on these. */
async function grantsOn(tx: Tx, at: string, names: readonly string[]): Promise<readonly string[]> {
  const rows = await tx.rows<{ readonly grant: string }>(
    `SELECT format('GRANT %s ON %I.%I TO %s%s', a.privilege_type, n.nspname, c.relname,
         CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
         CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS grant
     FROM unnest(:names::text[]) AS given(name) JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(:at || quote_ident(given.name))
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) AS a
     WHERE a.grantee <> c.relowner`,
    { names, at },
  );
  return rows.map(({ grant }) => grant);
}
