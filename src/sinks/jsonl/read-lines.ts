import { readFileSync } from 'node:fs';
import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../core/records.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';
import type { ListedFile } from './file-list.ts';
import { findFile } from './find-damage.ts';
import { readKept } from './read-kept.ts';

interface ChangeLine {
  readonly seq: number;
  readonly text: () => string;
}

const newline = 10;
const seqMark = Buffer.from('"_seq":');

/** The committed lines of a file that can be relied on, in order. */
export function* readCommittedLines(directory: string, file: ListedFile): Generator<ChangeLine> {
  const { path } = findFile(directory, file);
  const length = readKept(path, file)?.length ?? file.length;
  if (length === 0) return;
  const bytes = readFileSync(path).subarray(0, length);
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    const line = bytes.subarray(start, end);
    const seq = seqOf(line);
    if (seq !== null) yield { seq, text: () => line.toString('utf8') };
    start = end + 1;
  }
}

/** From the end: only the time and the run stand behind it, and neither can look like it. */
function seqOf(line: Buffer): number | null {
  const at = line.lastIndexOf(seqMark);
  const start = at + seqMark.length;
  const seq = at < 0 ? Number.NaN : Number.parseInt(line.toString('latin1', start, start + 20), 10);
  return Number.isSafeInteger(seq) ? seq : null;
}

/** What a line says of a record; null for a text that is no such line. Numbers keep all their digits. */
export function recordOfLine(
  { columns }: EntityTable,
  text: string,
): { readonly values: readonly ColumnValue[]; readonly extra: string | null } | null {
  const line = readJson(text);
  if (!isJsonObject(line)) return null;
  const { _extra: extra } = line;
  return {
    values: columns.map(({ name, type }) => columnValue(type, memberOf(line, name) ?? null)),
    extra: extra === undefined || extra === null ? null : writeJson(extra),
  };
}

function columnValue(type: FieldType, value: JsonValue): ColumnValue {
  if (value === null) return null;
  if (isJsonColumn(type)) return writeJson(value);
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'object' ? writeJson(value) : value;
}
