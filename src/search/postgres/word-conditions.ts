import { quoted } from '../../sql/quoted.ts';
import { most } from '../compile-filter.ts';
import { sourceSql } from '../field-value.ts';
import type { FieldCondition } from '../search-request.ts';
import { type FieldSource, isJsonType, type SearchField, type SearchTarget } from '../search-target.ts';
import { oneOf, piece, type Piece } from '../sql-piece.ts';
import { postgresWords } from '../sql-words.ts';
import { slipsAllowed } from '../words.ts';

/**
 * Conditions that every row meets whose value meets `keyword` or `fuzzy`; none for another condition. A trigram index
 * on `folded` serves them.
 */
export function wordConditions(condition: FieldCondition, field: SearchField): readonly Piece[] {
  if (condition.kind === 'keyword') return [hasOneOf(field, condition.words)];
  if (condition.kind !== 'fuzzy') return [];
  return [...new Set(condition.words)].slice(0, most).map((word) => hasOneOf(field, keptParts(word)));
}

/** Which texts hold a word beyond ASCII only our own folding can tell: they are all found by this. */
const mark = 'zqxj';

/** Lower case of texts in ASCII; the mark for others. */
function folded(text: string): string {
  return `CASE WHEN octet_length(${text}) <> length(${text}) THEN '${mark}' ELSE lower(${text} COLLATE "C") END`;
}

/** One pattern: the text is folded once, and a trigram index is asked once. */
function hasOneOf(field: SearchField, parts: readonly string[]): Piece {
  // Letters and digits only: nothing in a part is a sign of patterns.
  const pattern = [...parts, mark].join('|');
  return oneOf(
    field.sources.filter(hasTexts).map((source) => {
      const text = folded(textOf(source, sourceSql(source)));
      return piece(`(${text}) ~ CAST(? AS text)`, pattern);
    }),
  );
}

function hasTexts(source: FieldSource): boolean {
  return source.kind === 'extra' || source.type === 'string' || isJsonType(source.type);
}

function textOf(source: FieldSource, sql: string): string {
  return source.kind === 'extra' || source.type !== 'string' ? postgresWords.json(sql) : sql;
}

/**
 * Parts of which every word has one that is this word with the slips that it may have. Cut into one part more than
 * there are slips, one part stays as it is, unless two letters swap places between two parts; then the first of such
 * parts begins as it was, with those two behind.
 */
export function keptParts(word: string): readonly string[] {
  const letters = Array.from(word);
  const size = Math.ceil(letters.length / (slipsAllowed(word) + 1));
  const parts: string[] = [];
  for (let at = 0; at < letters.length; at += size) {
    parts.push(letters.slice(at, at + size).join(''));
    const [last, next] = letters.slice(at + size - 1, at + size + 1);
    if (last !== undefined && next !== undefined) {
      parts.push([...letters.slice(at, at + size - 1), next, last].join(''));
    }
  }
  return [...new Set(parts)];
}

/**
 * The statements that make trigram indexes for the texts of a table, one for each column. `extension`: the schema that
 * `pg_trgm` is in; null where it is still to be created.
 */
export function wordIndexSql(
  target: SearchTarget,
  schema: string,
  extension: string | null,
): readonly string[] {
  const table = `${quoted(schema)}.${quoted(target.table)}`;
  const operators = `${quoted(extension ?? 'public')}.gin_trgm_ops`;
  const sources = [...target.fields.values()].flatMap((field) => field.sources);
  const texts = sources.flatMap((source) => {
    if (source.kind === 'parent' || !hasTexts(source)) return [];
    return [textOf(source, quoted(source.kind === 'extra' ? '_extra' : source.column))];
  });
  return [
    ...(extension === null ? ['CREATE EXTENSION pg_trgm SCHEMA public;'] : []),
    ...[...new Set(texts)].map(
      (text) =>
        `CREATE INDEX CONCURRENTLY ON ${table} USING gin ((${folded(text)}) ${operators}) WHERE _deleted_at IS NULL;`,
    ),
    `ANALYZE ${table};`,
  ];
}
