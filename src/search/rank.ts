import type { JsonValue } from '../core/json.ts';
import { conditionMatcher } from './match-condition.ts';
import { wordMatcher } from './match-words.ts';
import type { RowFunctions } from './row-functions.ts';
import type { Condition, FieldCondition } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';
import { valueAt } from './value-at.ts';

/** More than all slips that one search can have: a word more always outweighs them. */
const pointsPerWord = 10_000;

/**
 * SQL for how well a row meets the filter's words, a number that is higher for better ones and depends on the row alone; null
 * where every row that meets the filter would have the same. What stands under `not` counts nothing.
 */
export function rankSql(filter: Condition, target: SearchTarget, functions: RowFunctions): string | null {
  const ranked = rankedIn(filter);
  const [first] = ranked;
  if (first === undefined || (ranked.length === 1 && isSameForAll(first, filter))) return null;
  const scores = ranked.flatMap((condition) => {
    const [name = '', ...inside] = condition.path;
    const field = target.fields.get(name);
    const find = valueAt(inside);
    const score = fieldScore(condition);
    return field === undefined ? [] : [functions.call(field, (value) => score(find(value)))];
  });
  return `(${scores.join(' + ')})`;
}

/** Conditions on fields that look for words, `any` with such inside among them. */
function rankedIn(condition: Condition): readonly FieldCondition[] {
  const { kind } = condition;
  if (kind === 'and' || kind === 'or') return condition.conditions.flatMap(rankedIn);
  if (kind === 'keyword' || kind === 'fuzzy') return [condition];
  return kind === 'any' && rankedIn(condition.condition).length > 0 ? [condition] : [];
}

/** A single word, which every row that meets the filter must have. */
function isSameForAll(condition: FieldCondition, filter: Condition): boolean {
  return condition.kind === 'keyword' && condition.words.length === 1 && isNeeded(condition, filter);
}

function isNeeded(wanted: Condition, condition: Condition): boolean {
  if (condition.kind === 'and') return condition.conditions.some((inner) => isNeeded(wanted, inner));
  return condition === wanted;
}

function scoreOf(condition: Condition): (value: JsonValue) => number {
  if (condition.kind === 'and' || condition.kind === 'or') {
    const scores = condition.conditions.map(scoreOf);
    return (value) => scores.reduce((sum, score) => sum + score(value), 0);
  }
  if (condition.kind === 'not') return () => 0;
  const find = valueAt(condition.path);
  const score = fieldScore(condition);
  return (value) => score(find(value));
}

/** Of an array the best element that meets the condition counts. */
function fieldScore(condition: FieldCondition): (value: JsonValue) => number {
  if (condition.kind === 'keyword' || condition.kind === 'fuzzy') {
    const match = wordMatcher(condition);
    return (value) => {
      const { found, slips } = match(value) ?? { found: 0, slips: 0 };
      return found * pointsPerWord - slips;
    };
  }
  if (condition.kind !== 'any') return () => 0;
  const meets = conditionMatcher(condition.condition);
  const score = scoreOf(condition.condition);
  return (value) => {
    let best = 0;
    if (!Array.isArray(value)) return best;
    for (const element of value as readonly JsonValue[]) {
      if (meets(element)) best = Math.max(best, score(element));
    }
    return best;
  };
}
