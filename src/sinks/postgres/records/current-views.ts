import { createHash } from 'node:crypto';
import type { DerivedColumn } from '../../../core/described-table.ts';
import type { FieldType } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import type { FoundName, ShownView, Views } from '../../records/current-views.ts';
import { isJsonColumn } from '../../decisions/stored-table.ts';
import { binaryType } from '../column-types.ts';
import { convertText, derivedTypes, scalarIn, takeableJson } from './convert-text.ts';
import { quotedTable, tableName } from './names.ts';

/** What has the name of a view, of this program or not. */
interface FoundView extends FoundName {
  /** Null for a table. That of a view of another person does not begin as `made` does. */
  readonly comment: string | null;
  readonly columns: readonly Readonly<Record<'name' | 'type', string>>[];
  /** Whether another view is made of it: then it can be replaced, but not dropped. */
  readonly isUsed: boolean;
}

const made = 'Made by connector-sync: ';

/**
 * A view keeps its columns in their order, because PostgreSQL replaces no other one, and drops none that others are
 * made of.
 */
export function viewsIn(schema: string): Views<FoundView> {
  return {
    tableName,
    find: findViews,
    isOwn: ({ comment }) => comment?.startsWith(made) === true,
    put: (tx, view, found) => putView(tx, schema, view, found),
  };
}

function putView(
  tx: Tx,
  schema: string,
  { name, connector, entity, columns, derived }: ShownView,
  found: FoundView | undefined,
): void {
  const types = new Map(columns.map((column) => [column.name, column.type]));
  const shown = [
    ...columns.map((column) => ({
      name: column.name,
      type: binaryType[column.type],
      sql: quoted(column.name),
    })),
    ...derived.map((column) => ({
      name: column.name,
      type: derivedTypes[column.as],
      sql: derivedSql(column, types),
    })),
  ];
  const byName = new Map(shown.map((column) => [column.name, column]));
  const isReplaced = found?.columns.every((column) => byName.get(column.name)?.type === column.type) ?? true;
  if (!isReplaced && found?.isUsed === true) return;
  const before = new Set(isReplaced ? found?.columns.map((column) => column.name) : []);
  const ordered = [
    ...[...before].flatMap((column) => byName.get(column) ?? []),
    ...shown.filter((column) => !before.has(column.name)),
  ];
  const list = ordered.map((column) => `${column.sql} AS ${quoted(column.name)}`).join(', ');
  const table = `${quoted(schema)}.${quotedTable(connector, entity)}`;
  const select = `SELECT ${list} FROM ${table} WHERE _deleted_at IS NULL`;
  const hash = createHash('sha256').update(select).digest('hex').slice(0, 10);
  const wanted = `${made}rows of ${connector}/${entity} that are not deleted (${hash})`;
  if (found?.comment === wanted) return;
  const view = quoted(name);
  if (!isReplaced) tx.put(`DROP VIEW ${view}`);
  tx.put(`CREATE OR REPLACE VIEW ${view} AS ${select}`);
  tx.put(`COMMENT ON VIEW ${view} IS '${wanted}'`);
}

/** `types`: of the columns that it is made of. */
function derivedSql({ from, path, as }: DerivedColumn, types: ReadonlyMap<string, FieldType>): string {
  const [first = ''] = from;
  const source = from.length === 1 ? quoted(first) : `coalesce(${from.map(quoted).join(', ')})`;
  if (as === 'texts') return joinedTexts(takeableJson(source), path);
  if (!isJsonColumn(types.get(first) ?? 'string')) return convertText(`${source}::text`, as);
  const steps = path.map((step) => ` -> '${step.replaceAll("'", "''")}'`).join('');
  return `(SELECT ${convertText('t', as)} FROM (${scalarIn(source, steps)}) AS scalar)`;
}

/** Texts in the order of the document. */
function joinedTexts(json: string, path: readonly string[]): string {
  let value = json;
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

async function findViews(tx: Tx, names: readonly string[]): Promise<ReadonlyMap<string, FoundView>> {
  if (names.length === 0) return new Map();
  const rows = await tx.rows<Omit<FoundView, 'columns'> & { readonly columns: string }>(
    `SELECT c.relname::text AS name, CASE WHEN c.relkind = 'v' THEN obj_description(c.oid, 'pg_class') END AS comment,
       (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL)) ORDER BY a.attnum), '[]')::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = c.oid AND r.ev_class <> c.oid) AS is_used
     FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname IN {names text}`,
    { names },
  );
  return new Map(
    rows.map((row) => [row.name, { ...row, columns: JSON.parse(row.columns) as FoundView['columns'] }]),
  );
}
