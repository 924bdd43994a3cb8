import type { JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { compileChangeSpan } from './change-span.ts';

/**
 * Makes the function that says whether a page's records come in the order that the entity asks for, as far as its values are
 * times. One later than the run's start may belong to a record that changed while the page was made, at its old place.
 */
export function compileIsSorted(entity: Entity, capMs: number): (records: readonly JsonValue[]) => boolean {
  // Page tokens prove a walk by themselves, and pages in the opposite order have them.
  if (entity.order === null || entity.pagination.kind !== 'offset') return () => true;
  const valueOf = compileChangeSpan(entity.order.field);

  return (records) => {
    let beforeMs = Number.NEGATIVE_INFINITY;
    for (const record of records) {
      const value = valueOf(record);
      if (value === null || value.highestMs > capMs) continue;
      if (value.highestMs < beforeMs) return false;
      beforeMs = value.highestMs;
    }
    return true;
  };
}
