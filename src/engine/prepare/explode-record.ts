import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { FieldDrift, Quarantined, PreparedRecord } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import { compilePrepare, explodedShape } from './prepare-record.ts';
import type { SchemaPolicy } from './schema-policy.ts';

export interface Exploded {
  readonly records: PreparedRecord[];
  readonly refused: Quarantined[];
  readonly fetched: number;
  readonly extraFields: number;
  /** Of all elements; the same field and type once for each. */
  readonly drift: FieldDrift[];
}

/**
 * Turns an array field's elements into rows of their own; null: the entity explodes nothing. Absent key parts become
 * '': equal events of one second are one. The function throws `SyncError` SCHEMA_CHANGED where the policy wants a
 * change to fail the entity.
 */
export function compileExplode(
  entity: Entity,
  policy?: SchemaPolicy,
): ((raw: JsonObject, inject: Readonly<Record<string, JsonValue>>) => Exploded) | null {
  const { explode } = entity;
  const shape = explodedShape(entity, policy);
  if (explode === null || shape === null) return null;
  const prepare = compilePrepare(shape);
  const emptyKey = Object.fromEntries(
    explode.key.filter((name) => !explode.carry.includes(name)).map((name) => [name, '']),
  );

  return (raw, inject) => {
    const elements = raw[explode.field];
    if (!Array.isArray(elements)) return { records: [], refused: [], fetched: 0, extraFields: 0, drift: [] };
    const records: PreparedRecord[] = [];
    const refused: Quarantined[] = [];
    const carried = Object.fromEntries(
      explode.carry.map((name) => [name, inject[name] ?? raw[name] ?? null]),
    );
    const drift: FieldDrift[] = [];
    let extraFields = 0;
    for (const element of elements as readonly JsonValue[]) {
      const prepared = prepare(isJsonObject(element) ? withDefaults(element, emptyKey) : element, carried);
      drift.push(...prepared.drift);
      if (prepared.kind === 'refused') {
        refused.push(prepared.refused);
        continue;
      }
      records.push(prepared.record);
      extraFields += prepared.extraFields;
    }
    return { records, refused, fetched: elements.length, extraFields, drift };
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
