import { quoted } from '../../sql/quoted.ts';
import { sqlType } from '../../sinks/postgres/column-types.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { TablePlan } from '../tables/plan-table.ts';
import type { PlannedEntity } from '../target.ts';
import { columnsSql, type PostgresTables } from './postgres-tables.ts';

/** Changes the table as planned. A lock that keeps all others from it lasts until the end of the transaction. */
export async function shapeTable(
  tables: PostgresTables,
  plan: TablePlan,
  entity: PlannedEntity,
): Promise<void> {
  const { db: tx, at } = tables;
  const { kind, name } = plan;
  const table = tables.sqlName(entity);
  const view = `${name}_current`;
  const isFresh = kind === 'make' || kind === 'replace';
  // A view keeps the columns that it has from going.
  const isViewAnew = isFresh || plan.dropped.length > 0;
  const grants = isViewAnew ? await grantsOn(tx, at, [name, view]) : [];
  if (isFresh) await dropView(tx, at, name);
  if (isViewAnew) await dropView(tx, at, view);
  if (kind === 'replace') tx.put(`DROP TABLE IF EXISTS ${table}`);
  if (isFresh) tx.put(`CREATE TABLE ${table} (${columnsSql(entity)})`);
  else await alterTable(tables, table, plan);
  await note(tx, at, plan, entity);
  if (isViewAnew || kind === 'empty' || plan.added.length > 0) await makeView(tx, at, plan, view);
  for (const grant of grants) tx.put(grant);
}

/**
 * Keeps what others have attached to the table, and throws `SyncError` TARGET_INCOMPATIBLE where that keeps rows.
 * TRUNCATE would show an empty one to those who read an earlier state.
 */
async function alterTable(
  { db: tx, incompatible }: PostgresTables,
  table: string,
  { kind, name, dropped, added }: TablePlan,
): Promise<void> {
  if (kind === 'empty') {
    tx.put(`DELETE FROM ${table}`);
    if ((await tx.first(`SELECT 1 AS one FROM ${table} LIMIT 1`)) !== undefined) {
      throw incompatible(
        `its table ${name} kept rows that were deleted`,
        'Remove the trigger or rule that keeps them, then publish again.',
      );
    }
  }
  const changes = [
    ...dropped.map((name) => `DROP COLUMN IF EXISTS ${quoted(name)}`),
    ...added.map(({ name, type }) => `ADD COLUMN ${quoted(name)} ${sqlType[type]}`),
  ];
  if (changes.length > 0) tx.put(`ALTER TABLE ${table} ${changes.join(', ')}`);
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

/**
 * Rows that are not deleted, without what this program has added. Columns that come later stand behind the others, as a
 * view can only have them.
 */
async function makeView(tx: Tx, at: string, { name, columns }: TablePlan, view: string): Promise<void> {
  if (await isOthersView(tx, at, { name, columns }, view)) {
    await forgetView(tx, at, view);
    return;
  }
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

/**
 * Something else was put in the place of the view: it cannot become ours by columns that are added to it.
 */
async function isOthersView(
  tx: Tx,
  at: string,
  { name, columns }: Pick<TablePlan, 'name' | 'columns'>,
  view: string,
): Promise<boolean> {
  const there = await tx.rows<{ readonly name: string; readonly isSame: boolean }>(
    `SELECT v.attname::text AS name, c.relkind = 'v' AND t.attnum IS NOT NULL AS is_same
     FROM pg_catalog.pg_attribute AS v JOIN pg_catalog.pg_class AS c ON c.oid = v.attrelid
     LEFT JOIN pg_catalog.pg_attribute AS t ON t.attrelid = to_regclass(:at || quote_ident(:name)) AND t.attname = v.attname
       AND t.atttypid = v.atttypid AND t.attcollation = v.attcollation AND NOT t.attisdropped
     WHERE c.oid = to_regclass(:at || quote_ident(:view)) AND v.attnum > 0 AND NOT v.attisdropped ORDER BY v.attnum`,
    { at, name, view },
  );
  return !there.every((one, index) => one.isSame && one.name === columns[index]?.name);
}

/** Only one that was made here. */
async function dropView(tx: Tx, at: string, view: string): Promise<void> {
  if ((await forgetView(tx, at, view)) > 0) tx.put(`DROP VIEW IF EXISTS ${at}${quoted(view)}`);
}

async function forgetView(tx: Tx, at: string, view: string): Promise<number> {
  return await tx.run(`UPDATE ${at}_published_tables SET view_name = NULL WHERE view_name = :view`, { view });
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
