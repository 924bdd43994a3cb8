import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/core/json.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import type { SampleAccount } from '../../../src/sample/sample-account.ts';
import { sampleTruth, type TruthRecord } from '../sample-truth.ts';

/** What a search must find, worked out from the account and the definition alone. */
export function expectedRecords(entity: Entity, account: SampleAccount): readonly JsonObject[] {
  return [...sampleTruth(account, entity.name)].flatMap((one) =>
    elementsOf(entity, one).map((values) =>
      Object.fromEntries(
        [...entity.searchable].map(([name, { from, shape }]) => {
          const value = from.map((field) => values[field] ?? null).find((found) => found !== null) ?? null;
          return [name, shape === 'pairs' ? pairs(value) : value];
        }),
      ),
    ),
  );
}

function elementsOf({ explode }: Entity, { record, params }: TruthRecord): readonly JsonObject[] {
  const whole = { ...params, ...record };
  if (explode === null) return [whole];
  const elements = record[explode.field];
  const rows = (Array.isArray(elements) ? elements : []).filter(isJsonObject);
  // Two equal events are one row.
  return [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()].map((row) => ({
    ...whole,
    ...row,
  }));
}

/** In the order in which the service sends the members. */
export function pairs(value: JsonValue): JsonValue {
  if (!isJsonObject(value)) return value;
  return Object.entries(value).map(([name, member]) => ({ name, value: member }));
}

/** Each record as text, its objects' names sorted: neither the order of records nor that of names says anything. */
export function asTexts(records: readonly JsonObject[]): readonly string[] {
  return records.map((record) => JSON.stringify(sorted(record))).sort();
}

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name] ?? null)]),
  );
}
