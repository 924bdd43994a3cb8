import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { PreparedRecord } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import { refuseRecord } from './refuse-record.ts';

/**
 * Whether it lacks what the definition says every whole record has: stored as it is, it would replace the rest by
 * nulls.
 */
export function isPartial({ whole }: Pick<Entity, 'whole'>, raw: JsonValue): boolean {
  return isJsonObject(raw) && missingFields(whole, raw).length > 0;
}

/** The same record, for its key alone: a sink replaces no row by it. */
export function asPartial(entity: Entity, record: PreparedRecord, raw: JsonValue): PreparedRecord {
  const { file: _file, ...rest } = record;
  const missing = isJsonObject(raw) ? missingFields(entity.whole, raw).join(', ') : '';
  const detail = `it came without ${missing}, which every whole record has, and nothing is stored under its key`;
  return { ...rest, partial: refuseRecord(entity.name, 'partial', detail, raw) };
}

function missingFields(whole: readonly string[], raw: JsonObject): readonly string[] {
  return whole.filter((name) => (memberOf(raw, name) ?? null) === null);
}

/** Whether it is of the kind that the entity keeps. */
export function isOfKind({ only }: Pick<Entity, 'only'>, raw: JsonValue): boolean {
  return only === null || (isJsonObject(raw) && raw[only.field] === only.value);
}
