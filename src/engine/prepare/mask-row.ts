import { isJsonObject, memberOf, type JsonObject, type JsonValue, readFields } from '../../core/json.ts';
import type { Column, ColumnValue, RecordMask } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { EntityMasking } from '../../sinks/requests.ts';
import { canonicalJson, toColumnValue } from '../../core/canonical-json.ts';
import { noFields } from './prepare-record.ts';
import { jsonOf } from './row-content.ts';

type Masked = (members: JsonObject) => JsonObject;

/** Masks the stored values of an entity, and of the elements that it explodes. */
export function entityMaskings(entity: Entity, { stored }: RecordMask): readonly EntityMasking[] {
  const masked = withCopies(entity, (members) => objectOf(stored(members)));
  const { file = null } = entity.actions.get('download') ?? {};
  const own: EntityMasking = {
    entity: entity.table.entity,
    of: entity.name,
    row: masked,
    record: (value) => stored(value),
    cells: (columns, row) => maskedCells(columns, row, masked, masked),
    file: ({ name, contentType }) => {
      const of = (field: string | null | undefined, text: string | null): string | null => {
        if (field === null || field === undefined || text === null) return null;
        const value = memberOf(masked({ [field]: text }), field);
        return typeof value === 'string' ? value : null;
      };
      return { name: of(file?.name, name), contentType: of(file?.contentType, contentType) };
    },
    hidesVersions:
      file?.version.some((field) => memberOf(masked({ [field]: probe }), field) !== probe) ?? false,
  };
  const { explode, explodedTable } = entity;
  if (explode === null || explodedTable === null) return [own];
  const carried = new Set(explode.carry);
  const element: Masked = (members) => {
    const [first] = (masked({ [explode.field]: [members] })[explode.field] ?? []) as readonly JsonValue[];
    return objectOf(first ?? null);
  };
  const row: Masked = (members) => {
    const [outer, inner] = [noFields(), noFields()];
    for (const [name, value] of Object.entries(members)) (carried.has(name) ? outer : inner)[name] = value;
    return { ...masked(outer), ...element(inner) };
  };
  const elements: EntityMasking = {
    entity: explodedTable.entity,
    of: entity.name,
    row,
    record: (value) => (isJsonObject(value) ? element(value) : null),
    cells: (columns, one) => maskedCells(columns, one, row, element),
    file: (names) => names,
    hidesVersions: false,
  };
  return [own, elements];
}

/**
 * Masks a column that copies another field like that field. Where the other field is absent, the value is treated as a
 * copy of it.
 */
function withCopies({ filledFrom }: Pick<Entity, 'filledFrom'>, masked: Masked): Masked {
  if (filledFrom.size === 0) return masked;
  return (members) => {
    const after = masked(members);
    const copies = [...filledFrom].flatMap(([field, source]) => {
      const value = memberOf(members, field);
      const other = memberOf(members, source) ?? value;
      if (value === undefined || value !== memberOf(after, field)) return [];
      if (other !== undefined && canonicalJson(other) !== canonicalJson(value)) return [];
      return [[field, memberOf(masked({ [source]: value }), source) ?? null] as const];
    });
    const isSame = copies.every(([field, value]) => value === memberOf(members, field));
    return isSame ? after : { ...after, ...Object.fromEntries(copies) };
  };
}

/** Text that no rule leaves as it is, unless it keeps everything. */
const probe = 'connector-sync mask probe';

function maskedCells(
  columns: readonly Column[],
  { values, extra }: Parameters<EntityMasking['cells']>[1],
  row: Masked,
  record: Masked,
): ReturnType<EntityMasking['cells']> {
  const before = noFields();
  for (const [index, { name, type }] of columns.entries()) {
    const value = values[index] ?? null;
    if (value !== null) before[name] = jsonOf(type, value);
  }
  const after = row(before);
  const misfits = noFields();
  const cells = columns.map((column, index): ColumnValue => {
    const { name } = column;
    const value = memberOf(after, name) ?? null;
    if (value === memberOf(before, name)) return values[index] ?? null;
    const fitting = toColumnValue(column, value);
    if (fitting === undefined) misfits[name] = value;
    return fitting ?? null;
  });
  const undeclared = extra === null ? noFields() : objectOf(readFields(extra));
  const others = { ...record(undeclared), ...misfits };
  const text = Object.keys(others).length === 0 ? null : canonicalJson(others);
  if (text === extra && cells.every((cell, index) => cell === (values[index] ?? null))) return null;
  return { values: cells, extra: text };
}

function objectOf(value: JsonValue): JsonObject {
  return isJsonObject(value) ? value : noFields();
}
