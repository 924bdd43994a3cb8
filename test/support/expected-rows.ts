import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';

/** A stored row as JSON says it: every column by name, and what is kept beside them. */
export interface Row {
  readonly columns: JsonObject;
  readonly extra: JsonObject | null;
}

/** A record of the truth with the parameters of the listing it stands in, and what its place in a tree fills in. */
interface TrueRecord {
  readonly record: JsonObject;
  readonly params: JsonObject;
}

/**
 * What must be stored of an entity, worked out from the truth and the definition alone and without a line of the
 * engine: key text -> row. Rows of exploded elements are in the second map.
 */
export function expectedRows(
  entity: Entity,
  truth: Iterable<TrueRecord>,
): { readonly rows: ReadonlyMap<string, Row>; readonly exploded: ReadonlyMap<string, Row> } {
  const rows = new Map<string, Row>();
  const exploded = new Map<string, Row>();
  const { explode, explodedTable } = entity;
  for (const { record: sent, params } of truth) {
    const filled = [...entity.filledFrom].map(([field, source]): [string, JsonValue] => [
      field,
      sent[field] ?? sent[source] ?? null,
    ]);
    const record = { ...sent, ...Object.fromEntries(filled) };
    const injected = injectedOf(entity, record, params);
    const elements = explode === null ? [] : record[explode.field];
    const row = rowOf(
      entity.table,
      { ...record, ...injected },
      new Set([...entity.ignored, ...(Array.isArray(elements) && explode !== null ? [explode.field] : [])]),
    );
    rows.set(keyOf(entity.table, row), row);
    if (explode === null || explodedTable === null || !Array.isArray(elements)) continue;
    for (const element of elements.filter(isJsonObject)) {
      const carried = Object.fromEntries(
        explode.carry.map((name) => [name, injected[name] ?? record[name] ?? null]),
      );
      const absent = Object.fromEntries(explode.key.map((name) => [name, '']));
      const event = rowOf(explodedTable, { ...absent, ...element, ...carried }, new Set());
      exploded.set(keyOf(explodedTable, event), event);
    }
  }
  return { rows, exploded };
}

export function keyOf(table: EntityTable, row: Row): string {
  return JSON.stringify(table.key.map((name) => row.columns[name]));
}

function injectedOf(entity: Entity, record: JsonObject, params: JsonObject): JsonObject {
  const parent = entity.parents.find(({ inject }) =>
    [...inject.values()].every((param) => params[param] !== undefined),
  );
  const injected = [...(parent?.inject ?? [])].map(([field, param]): [string, JsonValue] => {
    const value = params[param] ?? null;
    return [field, entity.fields.get(field) === 'integer' ? Number(value) : value];
  });
  const placed = entity.recursive;
  const fromTree =
    placed === null
      ? []
      : [placed.rootField, placed.depthField, placed.positionField].map((name): [string, JsonValue] => [
          name,
          params[name] ?? record[name] ?? null,
        ]);
  return Object.fromEntries([...injected, ...fromTree]);
}

function rowOf(table: EntityTable, record: JsonObject, left: ReadonlySet<string>): Row {
  const names = new Set(table.columns.map(({ name }) => name));
  const extra = Object.fromEntries(
    Object.entries(record).filter(([name]) => !names.has(name) && !left.has(name)),
  );
  return {
    columns: Object.fromEntries([...names].map((name) => [name, record[name] ?? null])),
    extra: Object.keys(extra).length === 0 ? null : extra,
  };
}
