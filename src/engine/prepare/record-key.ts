import { memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { keyTextOf, type ColumnValue, type PreparedRecord } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import type { PageRecords } from '../../source/page-records.ts';
import { anyJsonWithout, canonicalJson, shortHash } from './canonical-json.ts';
import { injectedValues, toColumnValue } from './column-value.ts';
import { compileShape, type CompiledShape, type RecordShape } from './record-shape.ts';

/** Why the values are those of no record that can be found again; null: their key is whole. */
export function keyFault(
  { table, keySlots, isKeyless }: Pick<CompiledShape, 'table' | 'keySlots' | 'isKeyless'>,
  { isFilled }: Pick<ReturnType<typeof injectedValues>, 'isFilled'>,
  values: readonly ColumnValue[],
): string | null {
  const missing = keySlots.find(({ index }) => values[index] === null);
  if (missing !== undefined) return `the record has no ${missing.name}, which is part of its key`;
  if (isKeyless !== true && keySlots.every(({ index }) => isFilled[index] === true || values[index] === '')) {
    return `every part of the key that the record carries is empty (${table.key.join(', ')})`;
  }
  return null;
}

/**
 * The key of a record that was not read yet: `raw` has at least the members that the key is made of. Null: it must be
 * read to know, or will be refused. `values` are those of the key, and nulls.
 */
export function compileKeyOf(shape: RecordShape) {
  const compiled = compileShape(shape);
  const { slots, keySlots, filledFrom, table } = compiled;
  const width = table.columns.length;
  const isCopied = keySlots.some(({ name }) => filledFrom.has(name));
  const nothing = Array.from({ length: width }, (): ColumnValue => null);
  let injected = injectedValues(slots, {}, width);

  return (
    raw: JsonObject,
    inject: Readonly<Record<string, JsonValue>>,
  ): Pick<PreparedRecord, 'keyText' | 'values'> | null => {
    if (isCopied) return null;
    if (inject !== injected.from) injected = injectedValues(slots, inject, width);
    const values = [...nothing];
    for (const slot of keySlots) {
      const { name, index } = slot;
      const own = toColumnValue(slot, memberOf(raw, name) ?? null);
      const isInjected = injected.isFilled[index] === true;
      if (own === undefined && !isInjected) return null;
      values[index] = (isInjected ? injected.values[index] : own) ?? null;
    }
    if (keyFault(compiled, injected, values) !== null) return null;
    return { keyText: keyTextOf(keySlots.map(({ index }) => values[index] ?? null)), values };
  };
}

/** What differs from answer to answer and must not make another record of one that has no whole key. */
export function unstablePaths({ ignored, volatile }: Entity): readonly (readonly string[])[] {
  return [...[...ignored].map((name) => [name]), ...volatile];
}

/**
 * What is filled into a record: of an entity without a key also its hash, of the record and of what its listing fills
 * in.
 */
export function compileHashKey(entity: Entity) {
  const [field = ''] = entity.key;
  const unstable = unstablePaths(entity);
  return (
    inject: Partition['inject'],
    { records, index }: { readonly records: PageRecords; readonly index: number },
  ): Partition['inject'] => {
    if (entity.isKeyless !== true) return inject;
    const text = `${canonicalJson(inject)}${anyJsonWithout(records.value(index), unstable)}`;
    return { ...inject, [field]: shortHash(text) };
  };
}
