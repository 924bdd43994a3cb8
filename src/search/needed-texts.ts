import { isTime } from './instants.ts';
import type { Condition } from './search-request.ts';

/** More of them cost more than they spare. */
const most = 4;

/** Pieces of JSON text that every value which meets the condition has in it, as our own writer spells them. */
export function neededTexts(condition: Condition): readonly string[] {
  return [...new Set(collect(condition))].slice(0, most);
}

function collect(condition: Condition): readonly string[] {
  const { kind } = condition;
  if (kind === 'and') return condition.conditions.flatMap(collect);
  if (kind === 'any') return collect(condition.condition);
  if ((kind !== 'eq' && kind !== 'contains') || typeof condition.value !== 'string') return [];
  // The same instant may be written in another way.
  if (isTime(condition.value)) return [];
  return spelled(condition.value, kind === 'eq' ? 'whole' : 'part');
}

/** A lone surrogate is spelled as an escape, but may also be half of a pair. */
function spelled(text: string, extent: 'whole' | 'part'): readonly string[] {
  if (!text.isWellFormed()) return [];
  const json = JSON.stringify(text);
  const needed = extent === 'whole' ? json : json.slice(1, -1);
  return needed === '' ? [] : [needed];
}
