import { sourceSql } from './field-value.ts';
import { indexedRows } from './indexed-rows.ts';
import { valueMatcher } from './match-condition.ts';
import { nativeColumn } from './native-column.ts';
import { nativeCondition } from './native-condition.ts';
import { neededTexts } from './needed-texts.ts';
import type { RowFunctions } from './row-functions.ts';
import type { SearchIndex } from './search-index.ts';
import type { Condition, FieldCondition } from './search-request.ts';
import type { SearchField, SearchTarget } from './search-target.ts';
import { allOf, negated, never, oneOf, piece, type Piece } from './sql-piece.ts';
import { valueAt } from './value-at.ts';

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

function compileField(condition: FieldCondition, { target, index, functions }: Compiling): Piece {
  const [name = '', ...inside] = condition.path;
  const field = target.fields.get(name);
  if (field === undefined) return never;
  const find = valueAt(inside);
  const meets = valueMatcher(condition);
  const look = (): string => functions.call(field, (value) => (meets(find(value)) ? 1 : 0));
  const column = inside.length === 0 ? nativeColumn(field) : null;
  const native = column === null ? null : nativeCondition(column, condition, look);
  if (native !== null) return native;
  const rows = indexedRows(condition, field, index, target);
  const [found] = rows;
  // Of a text of the row itself the index knows all words; only what was written since has to be looked at.
  if (found !== undefined && condition.kind === 'keyword' && field.type === 'string') {
    return allOf([found, oneOf([piece('r._seq <= ?', index.indexedSeq), piece(look())])]);
  }
  return allOf([...rows, ...textConditions(field, condition), piece(look())]);
}

/** A text that must be somewhere in the value is somewhere in its JSON: what lacks it need not be taken apart. */
function textConditions(field: SearchField, condition: FieldCondition): readonly Piece[] {
  const isAllJson = field.sources.every(
    (source) =>
      source.kind === 'extra' || source.type === 'object' || source.type === 'array' || source.type === 'any',
  );
  if (!isAllJson) return [];
  return neededTexts(condition).map((text) =>
    oneOf(field.sources.map((source) => piece(`instr(${sourceSql(source)}, ?) > 0`, text))),
  );
}
