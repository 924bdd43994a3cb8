import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../../core/json.ts';
import { keyPartsOf, readJsonIfWhole, writeJson } from '../../../core/json-text.ts';
import type { ColumnValue } from '../../../core/records.ts';
import { refusedName } from '../../purges.ts';
import type { FoundOf, FoundRecords, PurgingTx } from './find-below.ts';

const rowsAtOnce = 500;

/** A record in quarantine that goes. `name`: what it is noted by; null: its key is noted. */
export interface FoundRefused {
  readonly id: number;
  readonly name: string | null;
}

/**
 * Records in quarantine that are meant, or are, or belong to, records that go. A refused record may lack a part of its
 * key that its listing fills in: it is recognized by the parts that it has. One that cannot be read is taken where it
 * holds all texts of a key.
 */
export async function findQuarantined(
  purging: PurgingTx,
  { of, joins }: FoundRecords,
  one: FoundOf,
): Promise<readonly FoundRefused[]> {
  const { tx, connector } = purging;
  const key = one.table?.key ?? [];
  const wanted = [
    matcherOf(key, one.keyTexts),
    ...joins
      .filter((join) => join.entity === one.entity)
      .map(({ parent, columns }) => matcherOf(columns, of.get(parent)?.keyTexts ?? new Set())),
  ];
  const isKnown = (value: JsonValue | undefined): boolean =>
    isJsonObject(value) && key.every((name) => typeof (memberOf(value, name) ?? {}) !== 'object');
  const texts = [...one.keyTexts].map((text) =>
    (keyPartsOf(text, key.length) ?? []).map((part) =>
      typeof part === 'string' ? JSON.stringify(part) : String(part),
    ),
  );
  const found: FoundRefused[] = [];
  for (let after = 0; ;) {
    const rows = await tx.rows<{ readonly id: number; readonly record: string }>(
      `SELECT id, record FROM _sync_quarantine
       WHERE connector = :connector AND entity = :entity AND id > :after ORDER BY id LIMIT :limit`,
      { connector, entity: one.entity, after, limit: rowsAtOnce },
    );
    for (const { id, record } of rows) {
      const value = readJsonIfWhole(record);
      const isFound = isJsonObject(value)
        ? wanted.some((matches) => matches(value))
        : texts.some((parts) => parts.length > 0 && parts.every((part) => record.includes(part)));
      if (isFound) found.push({ id, name: isKnown(value) ? null : refusedName(record) });
      else if (one.isRefusedMeant?.(record) === true) found.push({ id, name: refusedName(record) });
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsAtOnce) return found;
    after = last.id;
  }
}

/** Whether a record has these columns of one of the keys, as far as it has any; numbers and texts compare alike. */
function matcherOf(
  columns: readonly string[],
  keyTexts: ReadonlySet<string>,
): (record: JsonObject) => boolean {
  const keys = [...keyTexts].flatMap((text) => keyPartsOf(text, columns.length) ?? []);
  const width = columns.length;
  const known = new Map<string, ReadonlySet<string>>();
  /** The keys by the parts that a record has. */
  const keysBy = (has: readonly number[]): ReadonlySet<string> => {
    const name = has.join();
    const made = known.get(name) ?? new Set<string>();
    if (!known.has(name)) {
      for (let at = 0; at < keys.length; at += width) {
        (made as Set<string>).add(textOf(has.map((index) => keys[at + index] ?? null)));
      }
      known.set(name, made);
    }
    return made;
  };
  return (record) => {
    const has = columns.flatMap((name, index) => ((memberOf(record, name) ?? null) === null ? [] : [index]));
    if (has.length === 0) return false;
    return keysBy(has).has(textOf(has.map((index) => memberOf(record, columns[index] ?? '') ?? null)));
  };
}

function textOf(parts: readonly (ColumnValue | JsonValue)[]): string {
  return JSON.stringify(parts.map(partText));
}

/** A refused record may have an object in its key, which a person gives as JSON. */
function partText(part: ColumnValue | JsonValue): string {
  const isWritten = typeof part === 'string' && /^\s*[[{]/.test(part);
  const value = isWritten ? (readJsonIfWhole(part) ?? part) : part;
  return typeof value === 'object' && value !== null ? writeJson(value) : String(value);
}
