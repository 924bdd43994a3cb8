import { createHash } from 'node:crypto';
import { indexSuffixes } from '../records/own-names.ts';
import {
  keyPartsOf,
  keyTextOf,
  type Column,
  type ColumnValue,
  type EntityTable,
  type FieldType,
} from '../../core/records.ts';
import type { BinaryType } from '../../sql/postgres/encode-binary.ts';

/** PostgreSQL truncates longer names, and only raises a notice. */
const mostBytes = 63;
const mostTableBytes = mostBytes - indexSuffixes.owner.length;
const hashLength = 10;

/**
 * `<connector>__<entity>` with `-` as `_`: unique, because neither name may hold two underscores in a row. One that is
 * too long keeps its beginning and gets a hash of the whole after three underscores, which no other name has.
 * `_sync_tables` has the name too.
 */
export function tableName(connector: string, entity: string): string {
  const whole = `${connector.replaceAll('-', '_')}__${entity}`;
  if (whole.length <= mostTableBytes) return whole;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, hashLength);
  return `${whole.slice(0, mostTableBytes - hashLength - 3)}___${hash}`;
}

/** `json` keeps every digit of the input, where `jsonb` would not. */
export const binaryType = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  object: 'json',
  array: 'json',
  any: 'json',
} as const satisfies Readonly<Record<FieldType, BinaryType>>;

/** Texts are compared byte by byte, whatever the server's locale. */
export const sqlType: Readonly<Record<FieldType, string>> = { ...binaryType, string: 'text COLLATE "C"' };

/**
 * The text of a key as its record was prepared, of one that may come from a command line; null for a text that is no
 * key of the table.
 */
export function canonicalKey({ columns, key }: EntityTable, keyText: string): string | null {
  const parts = keyPartsOf(keyText, key.length);
  if (parts === null) return null;
  const typed = key.map((name, index): ColumnValue | undefined => {
    const column = columns.find((one) => one.name === name);
    return column === undefined ? undefined : keyPart(column, parts[index] ?? null);
  });
  return typed.every((part) => part !== undefined) ? keyTextOf(typed) : null;
}

/** The part of a key as its column holds it; undefined where it cannot hold it. */
function keyPart({ type }: Column, part: ColumnValue): ColumnValue | undefined {
  if (typeof part === 'string') return type === 'string' ? part : undefined;
  if (part === null || type === 'string') return undefined;
  if (type === 'number') return Number(part);
  return typeof part === 'bigint' || Number.isInteger(part) ? BigInt(part) : undefined;
}
