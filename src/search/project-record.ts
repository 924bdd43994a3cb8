import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { ColumnValue } from '../core/records.ts';
import { fieldReader, sourceSql } from './field-value.ts';
import type { FieldPath } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';

/** What of a row makes a result. */
interface Projection {
  /** SQL for the values that `record` takes, in that order. */
  readonly columns: readonly string[];
  record(stored: readonly ColumnValue[]): JsonObject;
}

/** `paths`: what results show, in this order; null for all searchable fields. */
export function projection(target: SearchTarget, paths: readonly FieldPath[] | null): Projection {
  const names = paths === null ? target.fields.keys() : paths.map(([name = '']) => name);
  const fields = [...new Set(names)].flatMap((name) => target.fields.get(name) ?? []);
  let width = 0;
  const readers = fields.map((field) => {
    const start = width;
    width += field.sources.length;
    return { name: field.name, read: fieldReader(field), start, end: width };
  });
  const shown = paths === null ? null : wholeFirst(paths);
  return {
    columns: fields.flatMap(({ sources }) => sources.map(sourceSql)),
    record: (stored) => {
      const whole: Members = Object.create(null) as Members;
      for (const { name, read, start, end } of readers) whole[name] = read(stored.slice(start, end));
      if (shown === null) return whole;
      const record: Members = Object.create(null) as Members;
      for (const path of shown) copyPath(whole, record, path);
      return record;
    },
  };
}

type Members = Record<string, JsonValue>;

/** A path inside of another that is shown whole adds nothing, and must take nothing away. */
function wholeFirst(paths: readonly FieldPath[]): readonly FieldPath[] {
  return paths.filter(
    (path, index) =>
      !paths.some(
        (other, at) =>
          (other.length < path.length || (other.length === path.length && at < index)) &&
          other.every((name, part) => name === path[part]),
      ),
  );
}

/** Copies what a path leads to, and where that is nothing, null at the place from which it leads no further. */
function copyPath(from: JsonObject, to: Members, path: FieldPath): void {
  let source = from;
  let copy = to;
  for (const [index, name] of path.entries()) {
    const rest = path.slice(index).join('.');
    const isLast = index === path.length - 1 || Object.hasOwn(source, rest);
    const found = isLast ? rest : name;
    const value = Object.hasOwn(source, found) ? (source[found] ?? null) : null;
    if (isLast || !isJsonObject(value)) {
      copy[found] = isLast ? value : null;
      return;
    }
    const begun = copy[found];
    // Shown whole already, by way of a name with dots.
    if (begun === value) return;
    const next = isMembers(begun) ? begun : (Object.create(null) as Members);
    copy[found] = next;
    copy = next;
    source = value;
  }
}

function isMembers(value: JsonValue | undefined): value is Members {
  return isJsonObject(value);
}
