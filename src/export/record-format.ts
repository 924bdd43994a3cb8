import { keyTextOf, type EntityTable } from '../core/records.ts';
import { lineWriters } from '../sinks/jsonl/line.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';

/** How records become text. */
export interface RecordFormat {
  /** Before the first record; '' where nothing stands there. */
  readonly head: string;
  /** One record, with its line end. */
  readonly text: (record: StoredRecord) => string;
}

/** A record per line as JSON, in the shape that the files of a JSONL sink have; of a deleted one the key alone. */
export function jsonlFormat(table: EntityTable): RecordFormat {
  const write = lineWriters(table);
  const keyIndexes = table.key.map((name) => table.columns.findIndex((column) => column.name === name));
  return {
    head: '',
    text: (record) => {
      const { seq, changedAt: now, run, values, extra } = record;
      const stamp = { now, run };
      const keyText = keyTextOf(keyIndexes.map((index) => values[index] ?? null));
      return record.isDeleted
        ? write.deletion(keyText, seq, stamp)
        : write.upsert({ values, extra }, seq, stamp);
    },
  };
}
