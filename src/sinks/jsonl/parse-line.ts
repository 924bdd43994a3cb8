import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../core/records.ts';
import { readJson, writeJson } from '../ledger/json-text.ts';
import { isJsonColumn } from '../ledger/tables.ts';
import type { StoredRecord } from '../record-reader.ts';

/** The record that a change line holds; null for a text that is no such line. Numbers keep all their digits. */
export function parseLine({ columns }: EntityTable, text: string): StoredRecord | null {
  const line = readJson(text);
  if (!isJsonObject(line)) return null;
  const { _op: op, _seq: seq, _changed_at: changedAt, _run_id: run, _extra: extra } = line;
  if (typeof seq !== 'number' || typeof changedAt !== 'string' || typeof run !== 'string') return null;
  return {
    isDeleted: op === 'delete',
    seq,
    changedAt,
    run: run as RunId,
    values: columns.map(({ name, type }) =>
      columnValue(type, Object.hasOwn(line, name) ? (line[name] ?? null) : null),
    ),
    extra: extra === undefined || extra === null ? null : writeJson(extra),
  };
}

function columnValue(type: FieldType, value: JsonValue): ColumnValue {
  if (value === null) return null;
  if (isJsonColumn(type)) return writeJson(value);
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'object' ? writeJson(value) : value;
}
