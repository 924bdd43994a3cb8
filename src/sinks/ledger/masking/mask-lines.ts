import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../../core/json.ts';
import type { Masked, Rewriting } from './rewriting.ts';

/** Lines of a JSONL sink, those with a key that the mask changes among them; gives how many change. */
export async function maskLines(
  { connector, lines, signal }: Rewriting,
  { masking, table }: Masked,
): Promise<number> {
  const { entity, stored, key } = table;
  return await lines({
    connector,
    table: { entity, columns: stored, key },
    signal,
    line: (line) => maskedLine(line, masking),
  });
}

/** Itself where nothing changes. */
function maskedLine(line: JsonObject, { row, record }: Masked['masking']): JsonObject {
  const members: Record<string, JsonValue> = {};
  for (const [name, value] of Object.entries(line)) if (!isOwn(name)) members[name] = value;
  const masked = row(members);
  const extra = memberOf(line, '_extra');
  const others = isJsonObject(extra) ? record(extra) : null;
  const after = Object.entries(line).flatMap(([name, value]): readonly (readonly [string, JsonValue])[] => {
    if (name !== '_extra') return [[name, isOwn(name) ? value : (memberOf(masked, name) ?? null)]];
    return isJsonObject(others) && Object.keys(others).length > 0 ? [[name, others]] : [];
  });
  const isSame =
    after.length === Object.keys(line).length && after.every(([name, value]) => value === line[name]);
  return isSame ? line : Object.fromEntries(after);
}

/** Of the sink, not of the record. */
function isOwn(name: string): boolean {
  return name.startsWith('_');
}
