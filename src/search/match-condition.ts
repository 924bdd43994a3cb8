import type { JsonValue } from '../core/json.ts';
import { equals, isOrdered } from './compare-values.ts';
import { isLike, likePattern } from './like-pattern.ts';
import { wordMatcher } from './match-words.ts';
import type { Condition, FieldCondition } from './search-request.ts';
import { valueAt } from './value-at.ts';

/** Makes the function that says whether a value (an object, for its paths to lead anywhere) meets the condition. */
export function conditionMatcher(condition: Condition): (value: JsonValue) => boolean {
  if (condition.kind === 'and' || condition.kind === 'or') {
    const all = condition.conditions.map(conditionMatcher);
    return condition.kind === 'and'
      ? (value) => all.every((meets) => meets(value))
      : (value) => all.some((meets) => meets(value));
  }
  if (condition.kind === 'not') {
    const meets = conditionMatcher(condition.condition);
    return (value) => !meets(value);
  }
  const find = valueAt(condition.path);
  const meets = valueMatcher(condition);
  return (value) => meets(find(value));
}

/** The same for the value that the condition's path leads to. */
export function valueMatcher(condition: FieldCondition): (found: JsonValue) => boolean {
  switch (condition.kind) {
    case 'eq':
      return (found) => equals(found, condition.value);
    case 'neq':
      return (found) => !equals(found, condition.value);
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return (found) => isOrdered(found, condition.kind, condition.value);
    case 'in':
      return (found) => condition.values.some((value) => equals(found, value));
    case 'like': {
      const pattern = likePattern(condition.pattern);
      return (found) => typeof found === 'string' && isLike(pattern, found);
    }
    case 'keyword':
    case 'fuzzy': {
      const match = wordMatcher(condition);
      return (found) => match(found) !== null;
    }
    case 'contains':
      return (found) => {
        if (Array.isArray(found)) return found.some((element: JsonValue) => equals(element, condition.value));
        return (
          typeof found === 'string' && typeof condition.value === 'string' && found.includes(condition.value)
        );
      };
    case 'any': {
      const meets = conditionMatcher(condition.condition);
      return (found) => Array.isArray(found) && found.some((element: JsonValue) => meets(element));
    }
  }
}
