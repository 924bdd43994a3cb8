import { createHash } from 'node:crypto';
import type { DerivedColumn } from '../../../core/described-table.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { shownDerived, viewNames } from '../../decisions/current-view.ts';
import { noteView, viewedTables, type ViewedTable } from '../../ledger/tables.ts';
import { parseColumns, parseDescribed } from '../../stored-json.ts';
import type { PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { tableAt, tableName } from './names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqlType } from '../column-types.ts';

/** What has the name of a view, whoever made it. */
interface FoundView {
  readonly name: string;
  /** Of a view of another person it does not begin as `made` does. */
  readonly comment: string | null;
  readonly columns: readonly TypedColumn[];
  /** Whether another view is made of it: then it can be replaced, but not dropped. */
  readonly isUsed: boolean;
}

interface TypedColumn {
  readonly name: string;
  readonly type: string;
}

const made = 'Made by connector-sync: ';

/**
 * Makes and renews the views of the connector's tables: rows that are not deleted, without the sink's own columns.
 * Nothing is written where nothing has changed. Where something else has the name there is no view. A view keeps its
 * columns in their order, because PostgreSQL replaces no other one, and drops none that others are made of.
 */
export async function renewCurrentViews(tx: Tx, at: string, connector: ConnectorName): Promise<void> {
  const tables = await viewedTables(tx, connector, at);
  const names = new Set(tables.map(({ entity }) => tableName(connector, entity)));
  const namesOf = (entity: EntityName): readonly string[] => viewNames(tableName(connector, entity), names);
  const found = await findViews(
    tx,
    at,
    tables.flatMap(({ entity }) => namesOf(entity)),
  );
  for (const { entity, currentView, ...table } of tables) {
    const there = namesOf(entity).map(
      (name) => found.get(name) ?? { name, comment: made, columns: [], isUsed: false },
    );
    // Where a view of an earlier name is still right, it stays.
    const view =
      there.find(({ columns, comment }) => columns.length > 0 && isOwn(comment)) ??
      there.find(({ comment }) => isOwn(comment));
    if (view !== undefined) putView(tx, { at, connector, entity }, view, columnsOf(table));
    const name = view?.name ?? null;
    if (name !== currentView) await noteView(tx, { connector, entity, view: name }, at);
  }
}

interface ShownColumn extends TypedColumn {
  readonly sql: string;
}

function columnsOf(table: Pick<ViewedTable, 'stored' | 'described'>): readonly ShownColumn[] {
  const stored = parseColumns(table.stored);
  return [
    ...stored.map(({ name, type }) => ({
      name,
      type: sqlType[type].replace(' COLLATE "C"', ''),
      sql: quoted(name),
    })),
    ...shownDerived(parseDescribed(table.described).derived, stored).map((column) => ({
      name: column.name,
      type: 'text',
      sql: derivedSql(column),
    })),
  ];
}

function putView(
  tx: Tx,
  {
    at,
    connector,
    entity,
  }: { readonly at: string; readonly connector: ConnectorName; readonly entity: EntityName },
  { name, comment, columns, isUsed }: FoundView,
  shown: readonly ShownColumn[],
): void {
  const byName = new Map(shown.map((column) => [column.name, column]));
  const isReplaced = columns.every((column) => byName.get(column.name)?.type === column.type);
  if (!isReplaced && isUsed) return;
  const before = new Set(isReplaced ? columns.map((column) => column.name) : []);
  const ordered = [
    ...[...before].flatMap((column) => byName.get(column) ?? []),
    ...shown.filter((column) => !before.has(column.name)),
  ];
  const list = ordered.map((column) => `${column.sql} AS ${quoted(column.name)}`).join(', ');
  const select = `SELECT ${list} FROM ${tableAt(at, connector, entity)} WHERE _deleted_at IS NULL`;
  const hash = createHash('sha256').update(select).digest('hex').slice(0, 10);
  const wanted = `${made}rows of ${connector}/${entity} that are not deleted (${hash})`;
  if (comment === wanted) return;
  const view = `${at}${quoted(name)}`;
  if (!isReplaced) tx.put(`DROP VIEW ${view}`);
  tx.put(`CREATE OR REPLACE VIEW ${view} AS ${select}`);
  tx.put(`COMMENT ON VIEW ${view} IS '${wanted}'`);
}

/**
 * What the server cannot take as text, in the escapes of JSON: U+0000, and halves of pairs. Whole pairs are never
 * stored as escapes.
 */
const untakeable = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})`;

/** Texts in the order of the document. */
function derivedSql({ from, path }: DerivedColumn): string {
  const source = from.length === 1 ? quoted(from[0] ?? '') : `coalesce(${from.map(quoted).join(', ')})`;
  let value = `(CASE WHEN strpos(${source}::text, '\\u') = 0 THEN ${source}
    ELSE regexp_replace(${source}::text, '${untakeable}', '\\1\\\\ufffd', 'g')::json END)`;
  const loops: string[] = [];
  for (const step of path) {
    if (step !== '*') {
      value = `(${value} -> '${step.replaceAll("'", "''")}')`;
      continue;
    }
    const each = `e${loops.length}`;
    loops.push(`LATERAL (SELECT ${value} AS v) AS ${each}v CROSS JOIN LATERAL (
      SELECT value, n FROM json_each(CASE json_typeof(${each}v.v) WHEN 'object' THEN ${each}v.v ELSE '{}'::json END) WITH ORDINALITY AS o(key, value, n)
      UNION ALL
      SELECT value, n FROM json_array_elements(CASE json_typeof(${each}v.v) WHEN 'array' THEN ${each}v.v ELSE '[]'::json END) WITH ORDINALITY AS a(value, n)
    ) AS ${each}`);
    value = `${each}.value`;
  }
  const order = loops.map((_, depth) => `e${depth}.n`);
  loops.push(`LATERAL (SELECT ${value} AS v) AS found`);
  const by = order.length === 0 ? '' : ` ORDER BY ${order.join(', ')}`;
  return `(SELECT string_agg(found.v #>> '{}', ''${by}) FROM ${loops.join(' CROSS JOIN ')} WHERE json_typeof(found.v) = 'string') COLLATE "C"`;
}

/** In front of their tables' end, or of a table that needs the name. Rejects where another view is made of one. */
export async function dropOwnViews(tx: Tx, at: string, names: readonly string[]): Promise<void> {
  const found = await findViews(tx, at, names);
  const own = [...found.values()]
    .filter(({ comment }) => isOwn(comment))
    .map(({ name }) => `${at}${quoted(name)}`);
  if (own.length > 0) tx.put(`DROP VIEW ${own.join(', ')}`);
}

function isOwn(comment: string | null): boolean {
  return comment?.startsWith(made) === true;
}

async function findViews(
  tx: Tx,
  at: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, FoundView>> {
  if (names.length === 0) return new Map();
  const rows = await tx.rows<Omit<FoundView, 'columns'> & { readonly columns: string }>(
    `SELECT c.relname::text AS name, CASE WHEN c.relkind = 'v' THEN obj_description(c.oid, 'pg_class') END AS comment,
       (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL)) ORDER BY a.attnum), '[]')::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = c.oid AND r.ev_class <> c.oid) AS is_used
     FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = to_regnamespace(:schema)
       AND c.relname = ANY(:names::text[])`,
    { schema: at.slice(0, -1), names },
  );
  return new Map(
    rows.map((row) => [row.name, { ...row, columns: JSON.parse(row.columns) as readonly TypedColumn[] }]),
  );
}
