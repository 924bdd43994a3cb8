import { readJson, widenedText, writeJson } from '../core/json-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EntityTable, PreparedRecord } from '../core/records.ts';
import { canonicalJson, canonicalJsonWithout, shortHash } from '../engine/prepare/canonical-json.ts';
import { oldAddress, slotOf, type RecordShape } from '../engine/prepare/prepare-record.ts';
import { fieldValue } from './stored-fields.ts';

/**
 * Compiles a digest that shows whether two rows hold the same values, in any sink and columns. As in a record's hash,
 * volatile paths and copies of other fields do not count, and an address that the service has moved counts as the old
 * one. A hash is stored beside a row's values, so it does not show that these were edited. `table`: the columns that
 * the rows have, which may be others than those that the definition declares. `widened`: names of columns that hold
 * numbers as texts, in this table or in one that it is compared with.
 */
export function compileDigest(
  { table: declared, volatile, moved, filledFrom = new Map<string, string>() }: RecordShape,
  table: EntityTable,
  widened: ReadonlySet<string> = new Set(),
): (row: Pick<PreparedRecord, 'values' | 'extra'>) => string {
  const slots = new Map(
    declared.columns.map((column, index) => [column.name, slotOf(declared, volatile, column, index)]),
  );
  const names = declared.columns.map(({ name }) => name).toSorted();

  return ({ values, extra }) => {
    const fields = new Map<string, JsonValue>();
    const undeclared = Object.create(null) as Record<string, JsonValue>;
    for (const [name, value] of Object.entries(extraFields(extra))) {
      if (value !== null) undeclared[name] = value;
    }
    for (const [index, { name, type }] of table.columns.entries()) {
      const value = readable(() => fieldValue(type, values[index] ?? null), values[index]);
      if (slots.has(name)) fields.set(name, value);
      else if (value !== null) undeclared[name] = value;
    }
    for (const name of widened) {
      const value = undeclared[name] ?? null;
      if (value !== null) undeclared[name] = widenedText(value) ?? value;
    }
    for (const [name, source] of filledFrom) {
      const of = fields.get(source) ?? undeclared[source] ?? null;
      const own = fields.get(name) ?? null;
      if (of !== null && own !== null && canonicalJson(own) === canonicalJson(of)) fields.delete(name);
    }
    const parts = names.flatMap((name) => {
      const value = fields.get(name) ?? null;
      const paths = slots.get(name)?.volatile ?? [];
      if (value === null || paths.some((path) => path.length === 0)) return [];
      const text = canonicalJsonWithout(oldAddress(moved?.get(name), value) ?? value, paths);
      return [name, withoutSigns(text)];
    });
    return shortHash(JSON.stringify([...parts, withoutSigns(canonicalJsonWithout(undeclared, volatile))]));
  };
}

export function widenedIn(table: EntityTable | null): ReadonlySet<string> {
  return new Set(table?.columns.flatMap(({ name, isWidened }) => (isWidened === true ? [name] : [])));
}

function extraFields(extra: string | null): JsonObject {
  const fields = extra === null ? {} : readable(() => readJson(extra), extra);
  return isJsonObject(fields) ? fields : { '': fields };
}

/** -0 and 0 are one value: the lines of JSONL and the columns of SQLite keep no sign of it. */
function withoutSigns(json: string): string {
  return json.includes('-0.0') ? writeJson(readJson(json)) : json;
}

/** A text that was edited by hand may no longer be JSON. */
function readable(read: () => JsonValue, stored: unknown): JsonValue {
  try {
    return read();
  } catch {
    return `not readable: ${String(stored)}`;
  }
}
