import { setImmediate } from 'node:timers/promises';
import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import { keyTextOf, type ColumnValue, type EntityTable, type FieldType } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';
import type { RecordTables, RewrittenLines, Taken } from '../ledger/driver.ts';

const newline = 10;
const linesAtOnce = 500;

/**
 * Lines of a file as they are to be, and how many change or go. A line of a record whose row is gone goes, as does one
 * that `line` removes.
 */
export async function rewrittenLines(
  bytes: Buffer,
  { connector, table, line }: RewrittenLines,
  { records, read }: { readonly records: RecordTables } & Pick<Taken, 'read'>,
) {
  const rows = records.open({ connector, table, stored: table.columns });
  const keyTextIn = keyReader(table);
  const kept: Buffer[] = [];
  let changed = 0;
  for (const some of batchesOf(bytes)) {
    const parsed = some.map((was) => {
      const value = readJson(was.toString('utf8', 0, was.length - 1));
      if (!isJsonObject(value)) return { was, value: null, after: null };
      const after = line(value, { keyText: keyTextIn(value), seq: Number(value['_seq']) });
      return { was, value, after };
    });
    const keyTexts = parsed.flatMap(({ after }) => (after === null ? [] : [keyTextIn(after)]));
    const stored = await read(async (tx: Tx) => await rows.rowsOf(tx, [...new Set(keyTexts)]));
    for (const { was, value, after } of parsed) {
      const isKept = after !== null && stored.has(keyTextIn(after));
      if (!isKept || after !== value) changed += 1;
      if (isKept) kept.push(after === value ? was : Buffer.from(lineText(after)));
    }
    await setImmediate();
  }
  return { kept, changed };
}

function* batchesOf(bytes: Buffer): Generator<readonly Buffer[]> {
  let some: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    some.push(bytes.subarray(start, end + 1));
    start = end + 1;
    if (some.length < linesAtOnce) continue;
    yield some;
    some = [];
  }
  if (some.length > 0) yield some;
}

function keyReader({ key, columns }: EntityTable): (line: JsonObject) => string {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  return (line) =>
    keyTextOf(key.map((name) => columnValue(types.get(name) ?? 'any', memberOf(line, name) ?? null)));
}

/** The value of a line in a column of this type. */
function columnValue(type: FieldType, value: JsonValue): ColumnValue {
  if (value === null) return null;
  if (isJsonColumn(type)) return writeJson(value);
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'object' ? writeJson(value) : value;
}

/** Its members in their order. */
function lineText(line: JsonObject): string {
  const members = Object.entries(line).map(([name, value]) => `${JSON.stringify(name)}:${writeJson(value)}`);
  return `{${members.join(',')}}\n`;
}
