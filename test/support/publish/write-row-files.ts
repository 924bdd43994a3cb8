import { join } from 'node:path';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import {
  type FileFormat,
  openRowFileWriters,
  type RowFilesOptions,
  type WrittenFile,
} from '../../../src/publish/row-files.ts';
import type { StoredRecord } from '../../../src/sinks/readings.ts';

export const things: EntityTable = {
  entity: 'things' as EntityName,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'count', type: 'integer' },
    { name: 'share', type: 'number' },
    { name: 'is_on', type: 'boolean' },
    { name: 'more', type: 'object' },
  ],
  key: ['id'],
};

export const changedAt = '2026-01-01T00:00:00.000Z';

/** A row of `things`. */
export function thing(seq: number, change: Partial<StoredRecord> = {}): StoredRecord {
  const values = [`k${seq}`, null, null, null, null];
  return { isDeleted: false, seq, changedAt, run: 'r' as RunId, values, extra: null, ...change };
}

/** Files in `folder`, called 1.parquet and so on, of any size. */
export function filesIn(folder: string, format: FileFormat, table: EntityTable = things): RowFilesOptions {
  return {
    format,
    table,
    columns: table.columns.map(({ name, type }) => ({ name, field: name, type })),
    pathOf: (part) => Promise.resolve(join(folder, `${part}.${format}`)),
    maxRows: 1_000_000,
    maxBytes: 1e9,
  };
}

/** Writes one batch after the other. */
export async function writeRowFiles(
  options: RowFilesOptions,
  ...batches: readonly (readonly StoredRecord[])[]
): Promise<readonly WrittenFile[]> {
  await using writers = openRowFileWriters();
  await using files = await writers.open(options);
  for (const batch of batches) await files.write(batch);
  return await files.finish();
}
