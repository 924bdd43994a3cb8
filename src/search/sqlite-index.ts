import type { ConnectorName } from '../core/names.ts';
import type { Entity } from '../definitions/definition.ts';
import { tableName } from '../sinks/decisions/stored-table.ts';
import { openIndexedSink, readSqliteSink } from '../sinks/sqlite/readers.ts';
import { toSinkError } from '../sinks/sqlite/open-database.ts';
import { type Tx, quoted } from '../sql/database.ts';
import { always, hasTexts, inRange, never, type Piece, piece, type RowRange } from './narrowing.ts';
import { type FieldSource, readTarget, type SearchField, type SearchTarget } from './search-target.ts';

/*
 * The index of a table in SQLite: FTS5 knows for each three letters in a row which rows have them, and triggers of the
 * table keep it equal to the rows. Without it a search finds the same and reads more.
 */

/**
 * Indexes an entity of a sink, where that is not done: the texts of its searchable fields, and each column of texts or
 * numbers. In one transaction, so that a kill leaves nothing of it. Does nothing where the entity has no table yet.
 * Throws as a sink does.
 */
export async function indexEntity(file: string, connector: ConnectorName, entity: Entity): Promise<void> {
  const found = await findIndex(file, connector, entity);
  if (found !== null) indexTable(file, found.target, found.isIndexed);
}

/** `hasIndex`: it has the index that this one would be. */
export function indexTable(file: string, target: SearchTarget, hasIndex: boolean): void {
  const db = openIndexedSink(file);
  try {
    if (!hasIndex) {
      const statements = [
        ...triggers.map((event) => `DROP TRIGGER IF EXISTS ${ownName(target.table, event)}`),
        `DROP TABLE IF EXISTS ${ownName(target.table, 'texts')}`,
        ...indexSql(target),
        ...columnIndexSql(target),
      ];
      db.transaction(() => db.exec(statements.join(';\n'))).immediate();
    }
    // A sample: which of two indexes leads to fewer rows.
    db.pragma('analysis_limit = 1000');
    db.exec(`ANALYZE ${quoted(target.table)}`);
  } catch (error) {
    throw toSinkError(error, file);
  } finally {
    db.close();
  }
}

async function findIndex(file: string, connector: ConnectorName, entity: Entity) {
  await using db = readSqliteSink(file);
  return await db.read(async (tx) => {
    const { target, isThere } = await readTarget(tx, { connector, entity }, tableName);
    return isThere ? { target, isIndexed: await isIndexed(tx, target) } : null;
  });
}

/** Whether there is an index of all texts that the target has now. */
export async function isIndexed(tx: Tx, target: SearchTarget): Promise<boolean> {
  const wanted = indexSql(target).slice(0, triggers.length + 1);
  const sql = 'SELECT count(*) AS n FROM sqlite_schema WHERE sql IN {wanted text}';
  const found = await tx.first<{ readonly n: number }>(sql, { wanted });
  return found?.n === wanted.length;
}

const triggers = ['insert', 'update', 'delete'] as const;

/** Its table, its triggers, and a statement that fills it. */
function indexSql(target: SearchTarget): readonly string[] {
  const table = quoted(target.table);
  const index = ownName(target.table, 'texts');
  const columns = textColumns(target).map(quoted);
  const texts = (row: string): string =>
    `concat_ws(char(10), ${columns.map((column, at) => indexedText(`${row}.${column}`, at)).join(', ')})`;
  const insert = `INSERT INTO ${index} (rowid, texts) VALUES (new._row, ${texts('new')});`;
  const remove = `DELETE FROM ${index} WHERE rowid = old._row;`;
  const differ = columns.map((column) => `old.${column} IS NOT new.${column}`).join(' OR ');
  const trigger = (event: (typeof triggers)[number], when: string, body: string): string =>
    `CREATE TRIGGER ${ownName(target.table, event)} AFTER ${event.toUpperCase()}${when} BEGIN ${body} END`;
  return [
    // Without the texts themselves, and without their places: only which rows have three letters somewhere.
    `CREATE VIRTUAL TABLE ${index} USING fts5(texts, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram')`,
    trigger('insert', ` ON ${table}`, insert),
    trigger('update', ` OF ${columns.join(', ')} ON ${table} WHEN ${differ}`, `${remove} ${insert}`),
    trigger('delete', ` ON ${table}`, remove),
    `INSERT INTO ${index} (rowid, texts) SELECT r._row, ${texts('r')} FROM ${table} AS r`,
  ];
}

/** Columns of the table that have texts, in the order in which the index has them. */
function textColumns({ fields }: SearchTarget): readonly string[] {
  const sources = [...fields.values()].flatMap((field) => field.sources).filter(hasTexts);
  const columns = new Set(['_extra', ...sources.flatMap((source) => textColumn(source) ?? [])]);
  return [...columns].slice(0, mostColumns);
}

/** A function of SQLite takes a thousand values. */
const mostColumns = 500;

/** Null for one of the parent's table, which changes without a change of the row. */
function textColumn(source: FieldSource): string | null {
  if (source.kind === 'parent') return null;
  return source.kind === 'extra' ? '_extra' : source.column;
}

/**
 * Three signs that stand for a text of this column with signs beyond ASCII: which words it has only our own folding can
 * tell, so that it is always read.
 */
function markOf(column: number): string {
  return `·${column.toString(36).padStart(2, '0')}`;
}

function indexedText(sql: string, column: number): string {
  return `CASE WHEN octet_length(${sql}) <> length(${sql}) THEN '${markOf(column)}' ELSE ${sql} END`;
}

/**
 * Rows that have all trigrams of one of the parts, or signs beyond ASCII in a text of the field. For a table that has
 * the index.
 */
export function rowsWithPart(
  target: SearchTarget,
  { sources }: SearchField,
  parts: readonly string[],
  rows: RowRange,
): Piece {
  const indexed = textColumns(target);
  const columns = sources.filter(hasTexts).map((source) => indexed.indexOf(textColumn(source) ?? ''));
  if (columns.length === 0) return never;
  // Only a text with signs beyond ASCII has a part that has one.
  const plain = parts.filter((part) => /^[\0-\x7f]*$/.test(part));
  if (columns.includes(-1) || plain.some((part) => part.length < 3)) return always;
  // Letters and digits only: nothing in a part ends a quotation.
  const ways = [...plain.map(trigramsOf), ...columns.map((column) => [markOf(column)])].map(
    (trigrams) => `(${trigrams.map((trigram) => `"${trigram}"`).join(' AND ')})`,
  );
  const index = ownName(target.table, 'texts');
  const range = inRange('rowid', rows);
  const sql = `r._row IN (SELECT rowid FROM ${index} WHERE ${index} MATCH ? AND ${range.sql})`;
  return piece(sql, ways.join(' OR '), ...range.values);
}

/** More of them hardly leave fewer rows. */
const mostTrigrams = 12;

function trigramsOf(part: string): readonly string[] {
  const trigrams = Array.from({ length: part.length - 2 }, (_, at) => part.slice(at, at + 3));
  return [...new Set(trigrams)].slice(0, mostTrigrams);
}

/** SQLite ends every index with the row number, which is how equal values are sorted. */
function columnIndexSql({ table, fields }: SearchTarget): readonly string[] {
  const columns = [...fields.values()].flatMap(({ sources }) =>
    sources.flatMap((source) =>
      source.kind === 'column' && ordered.has(source.type) ? [source.column] : [],
    ),
  );
  return [...new Set(columns)].map(
    (column) =>
      `CREATE INDEX IF NOT EXISTS ${ownName(table, `by_${column}`)} ON ${quoted(table)} (${quoted(column)})`,
  );
}

const ordered: ReadonlySet<string> = new Set(['string', 'integer', 'number']);

/**
 * No table of records begins so, and none of these is another's shadow table: a name of a connector or entity never
 * holds two underscores in a row, so what follows the last two tells them apart.
 */
function ownName(table: string, part: string): string {
  return quoted(`_search_${table}__${part}`);
}
