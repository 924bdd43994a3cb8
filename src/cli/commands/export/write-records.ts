import type { Written } from '../../../export/export-end.ts';
import type { RecordFormat } from '../../../export/record-format.ts';
import type { StoredRecord } from '../../../sinks/record-reader.ts';

const batchChars = 64 * 1024;

/** Writes a batch at a time, so that memory stays flat. Null: nobody takes any more. Throws the signal's reason once it is aborted. */
export async function writeRecords(
  format: RecordFormat,
  records: Iterable<StoredRecord>,
  write: (text: string) => Promise<boolean>,
  signal: AbortSignal,
): Promise<Written | null> {
  const written = { upserts: 0, deletes: 0 };
  let batch = format.head;
  for (const record of records) {
    batch += format.text(record);
    written[record.isDeleted ? 'deletes' : 'upserts'] += 1;
    if (batch.length < batchChars) continue;
    if (!(await write(batch))) return null;
    signal.throwIfAborted();
    batch = '';
  }
  if (batch !== '' && !(await write(batch))) return null;
  signal.throwIfAborted();
  return written;
}
