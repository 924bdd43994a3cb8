import type { JsonValue } from '../core/json.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { ColumnValue, FieldType } from '../core/records.ts';
import { readJson } from '../core/json-text.ts';
import { isJsonColumn } from '../sinks/decisions/stored-table.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { RecordReader } from '../sinks/sink-access.ts';
import { openExistingRecords } from '../sinks/registry.ts';

export type StoredFields = ReadonlyMap<string, JsonValue>;

/**
 * What the sink holds of a record, column by column; of a tombstone possibly the key alone. Null where the key is not
 * stored.
 */
export async function storedFields(
  reader: RecordReader,
  connector: ConnectorName,
  entity: EntityName,
  keyText: string,
): Promise<StoredFields | null> {
  const table = await reader.table(connector, entity);
  const record = table === null ? null : await reader.record(connector, table, keyText);
  if (table === null || record === null) return null;
  return new Map(
    table.columns.map(({ name, type }, index) => [name, fieldValue(type, record.values[index] ?? null)]),
  );
}

export function fieldValue(type: FieldType, value: ColumnValue): JsonValue {
  if (value === null) return null;
  if (type === 'boolean') return Number(value) !== 0;
  if (isJsonColumn(type)) return readJson(String(value));
  if (type === 'number') return Number(value);
  return typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** The id of the sink; null where nothing of the entity is stored in it. */
export async function storedIn({ connector, table }: EntityTarget): Promise<string | null> {
  await using reader = await openExistingRecords(connector.sink);
  const stored = await reader?.table(connector.name, table.entity);
  return reader === null || stored === null ? null : reader.sinkId;
}

/** The keys of the records whose newest change is the oldest, at most so many. */
export async function firstStored({ connector: { name, sink }, table }: EntityTarget, limit: number) {
  await using reader = await openExistingRecords(sink);
  const stored = (await reader?.table(name, table.entity)) ?? null;
  if (reader === null || stored === null) return [];
  for await (const batch of reader.changes(name, stored, 0)) {
    return batch.slice(0, limit).map(({ values, changedAt, isDeleted }) => ({
      key: stored.columns.flatMap((column, index) =>
        stored.key.includes(column.name) ? [[column.name, String(values[index])] as const] : [],
      ),
      changedAt,
      isDeleted,
    }));
  }
  return [];
}
