import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { compilePrepare, type Prepared } from './prepare-record.ts';
import { explodedShape } from './record-shape.ts';
import type { SchemaPolicy } from './schema-policy.ts';

/**
 * Turns each element of an array field into a separate row; null: the entity explodes nothing. Absent key parts become
 * '': equal events of one second are one. The function throws `SyncError` SCHEMA_CHANGED where the policy wants a
 * change to fail the entity.
 */
export function compileExplode(
  entity: Entity,
  policy?: SchemaPolicy,
): ((raw: JsonObject, inject: Readonly<Record<string, JsonValue>>) => readonly Prepared[]) | null {
  const { explode } = entity;
  const shape = explodedShape(entity, policy);
  if (explode === null || shape === null) return null;
  const prepare = compilePrepare(shape);
  const emptyKey = Object.fromEntries(
    explode.key.filter((name) => !explode.carry.includes(name)).map((name) => [name, '']),
  );

  return (raw, inject) => {
    const elements = raw[explode.field];
    if (!isJsonArray(elements)) return [];
    const carried = Object.fromEntries(
      explode.carry.map((name) => [name, inject[name] ?? raw[name] ?? null]),
    );
    return elements.map((element) =>
      prepare(isJsonObject(element) ? withDefaults(element, emptyKey) : element, carried),
    );
  };
}

function withDefaults(element: JsonObject, emptyKey: JsonObject): JsonObject {
  const filled = Object.create(null) as Record<string, JsonValue>;
  for (const [name, value] of Object.entries(emptyKey)) filled[name] = value;
  for (const [name, value] of Object.entries(element)) {
    if (value !== null || !(name in filled)) filled[name] = value;
  }
  return filled;
}
