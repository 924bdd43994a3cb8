import { quoted } from '../sinks/sqlite/quoted.ts';
import type { SearchIndex } from './search-index.ts';
import type { Condition, FieldCondition, WordCondition } from './search-request.ts';
import type { SearchField, SearchTarget } from './search-target.ts';
import { piece, type Piece } from './sql-piece.ts';

/** More conditions narrow little and cost a list of rows each. */
const most = 4;

/**
 * Conditions that every row which meets the condition meets too, and that the index answers. Rows written since it was brought up to
 * date are in all of them: they have to be looked at. One list of rows and no `or`, so that rows come in the order of their numbers.
 */
export function indexedRows(
  condition: FieldCondition,
  field: SearchField,
  index: SearchIndex,
  target: SearchTarget,
): readonly Piece[] {
  if (index.indexedSeq === 0) return [];
  return neededWords(condition)
    .slice(0, most)
    .flatMap(({ kind, words }) => {
      const rows =
        kind === 'keyword' ? index.rowsWithWord(field.name, words) : index.rowsNearWords(field.name, words);
      if (rows === null) return [];
      const newer = `SELECT _row FROM ${quoted(target.table)} WHERE _seq > ?`;
      return piece(`r._row IN (${rows.sql} UNION ALL ${newer})`, ...rows.values, index.indexedSeq);
    });
}

/** The conditions on words without which a value does not meet this one. */
function neededWords(condition: Condition): readonly WordCondition[] {
  const { kind } = condition;
  if (kind === 'keyword' || kind === 'fuzzy') return [condition];
  if (kind === 'and') return condition.conditions.flatMap(neededWords);
  return kind === 'any' ? neededWords(condition.condition) : [];
}
