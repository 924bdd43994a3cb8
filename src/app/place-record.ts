import type { JsonValue } from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';
import type { RecordKey } from '../cli/record-key.ts';
import type { StoredFields } from '../cli/stored-fields.ts';

/**
 * What a walk fills into the record from where it found it (field -> value): from the key, and from the stored row what is not
 * in the key. Null where it cannot be known: the record alone does not say where it belongs.
 */
export function placeRecord(
  entity: Entity,
  { fields }: RecordKey,
  stored: StoredFields | null,
): Readonly<Record<string, JsonValue>> | null {
  const placed: Record<string, JsonValue> = {};
  const ofTree = treeFields(entity);
  for (const name of new Set([...injectedFields(entity), ...ofTree])) {
    const value = fields.get(name) ?? stored?.get(name) ?? null;
    if (value !== null) placed[name] = value;
    // A tree's fields are in every row; of several ways to an entity each fills in its own.
    else if (stored === null || ofTree.includes(name)) return null;
  }
  return placed;
}

function injectedFields({ parents }: Entity): readonly string[] {
  return parents.flatMap(({ inject }) => [...inject.keys()]);
}

function treeFields({ recursive }: Entity): readonly string[] {
  return recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
}
