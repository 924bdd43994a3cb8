import { quoted } from '../sql/quoted.ts';
import { sourceSql, valueAt } from './field-value.ts';
import type { SearchIndex } from './index/open-search-index.ts';
import { isTime } from './instants.ts';
import { valueMatcher } from './match-condition.ts';
import { nativeColumn, nativeCondition } from './native-condition.ts';
import type { RowFunctions } from './row-functions.ts';
import type { Condition, FieldCondition } from './search-request.ts';
import { isJsonType, type SearchField, type SearchTarget } from './search-target.ts';
import { allOf, negated, never, oneOf, piece, type Piece } from './sql-piece.ts';
import { sqliteWords, type SqlWords } from './sql-words.ts';

/** What conditions and orders are made SQL of. */
export interface Compiling {
  readonly target: SearchTarget;
  readonly index: SearchIndex;
  readonly functions: RowFunctions;
}

/** SQL that is true of exactly the rows that meet the condition; of others false or null. */
export function compileFilter(condition: Condition, compiling: Compiling): Piece {
  if (condition.kind === 'and' || condition.kind === 'or') {
    const pieces = condition.conditions.map((inner) => compileFilter(inner, compiling));
    return condition.kind === 'and' ? allOf(pieces) : oneOf(pieces);
  }
  if (condition.kind === 'not') return negated(compileFilter(condition.condition, compiling));
  return compileField(condition, compiling);
}

function compileField(condition: FieldCondition, compiling: Compiling): Piece {
  const { target, index, functions } = compiling;
  const [name = '', ...inside] = condition.path;
  const field = target.fields.get(name);
  if (field === undefined) return never;
  const find = valueAt(inside);
  const meets = valueMatcher(condition);
  const look = (): string => functions.call(field, (value) => (meets(find(value)) ? 1 : 0));
  const column = inside.length === 0 ? nativeColumn(field) : null;
  const native =
    column === null ? null : nativeCondition(column, condition, { words: sqliteWords, fallBack: look });
  if (native !== null) return native;
  const rows = indexedRows(condition, field, compiling);
  const [found] = rows;
  // Of a text of the row itself the index knows all words; only rows written since then are checked.
  if (found !== undefined && condition.kind === 'keyword' && field.type === 'string') {
    return allOf([found, oneOf([piece('r._seq <= ?', index.indexedSeq), piece(look())])]);
  }
  return allOf([...rows, ...textConditions(field, condition, sqliteWords), piece(look())]);
}

/** A text that must be somewhere in the value is somewhere in its JSON: what lacks it need not be taken apart. */
export function textConditions(
  field: SearchField,
  condition: FieldCondition,
  words: SqlWords,
): readonly Piece[] {
  const isAllJson = field.sources.every((source) => source.kind === 'extra' || isJsonType(source.type));
  if (!isAllJson) return [];
  return neededTexts(condition).map((text) =>
    oneOf(field.sources.map((source) => piece(words.has(words.json(sourceSql(source))), text))),
  );
}

/** Texts and words that narrow a query. More of them cost more than they save. */
export const most = 4;

/** Conditions that must be met, by the value or by something in it, where it meets this one. */
export function needed(condition: Condition): readonly FieldCondition[] {
  if (condition.kind === 'and') return condition.conditions.flatMap(needed);
  if (condition.kind === 'or' || condition.kind === 'not') return [];
  return condition.kind === 'any' ? needed(condition.condition) : [condition];
}

/** Pieces of JSON text that every value which meets the condition has in it, as our own writer spells them. */
function neededTexts(condition: Condition): readonly string[] {
  const texts = needed(condition).flatMap((one) => {
    if ((one.kind !== 'eq' && one.kind !== 'contains') || typeof one.value !== 'string') return [];
    // The same instant may be written in another way.
    return isTime(one.value) ? [] : spelled(one.value, one.kind === 'eq' ? 'whole' : 'part');
  });
  return [...new Set(texts)].slice(0, most);
}

/**
 * A lone surrogate is spelled as an escape, but may also be half of a pair. What is bound in PostgreSQL writes U+E000
 * in another way than its JSON has it.
 */
function spelled(text: string, extent: 'whole' | 'part'): readonly string[] {
  if (!text.isWellFormed() || text.includes('\uE000')) return [];
  const json = JSON.stringify(text);
  const needed = extent === 'whole' ? json : json.slice(1, -1);
  return needed === '' ? [] : [needed];
}

/**
 * Conditions that every row which meets the condition meets too, and that the index answers. Rows written since it was
 * brought up to date are in all of them: they have to be checked. One list of rows and no `or`, so that rows come in
 * the order of their numbers.
 */
function indexedRows(
  condition: FieldCondition,
  field: SearchField,
  { index, target }: Compiling,
): readonly Piece[] {
  if (index.indexedSeq === 0) return [];
  return needed(condition)
    .flatMap((one) => (one.kind === 'keyword' || one.kind === 'fuzzy' ? [one] : []))
    .slice(0, most)
    .flatMap(({ kind, words }) => {
      const rows =
        kind === 'keyword' ? index.rowsWithWord(field.name, words) : index.rowsNearWords(field.name, words);
      if (rows === null) return [];
      const newer = `SELECT _row FROM ${quoted(target.table)} WHERE _seq > ?`;
      return piece(`r._row IN (${rows.sql} UNION ALL ${newer})`, ...rows.values, index.indexedSeq);
    });
}
