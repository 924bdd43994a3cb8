import type { Written } from '../../../export/export-end.ts';
import type { RecordFormat } from '../../../export/record-format.ts';
import type { StoredRecord } from '../../../sinks/record-reader.ts';

const batchChars = 64 * 1024;

/** Writes a batch at a time, so that memory stays flat. Null: nobody takes any more. Throws the signal's reason once it is aborted. */
export async function writeRecords(
  format: RecordFormat,
  batches: AsyncIterable<readonly StoredRecord[]> | readonly never[],
  write: (text: string) => Promise<boolean>,
  signal: AbortSignal,
): Promise<Written | null> {
  const written = { upserts: 0, deletes: 0 };
  let text = format.head;
  for await (const records of batches) {
    for (const record of records) {
      text += format.text(record);
      written[record.isDeleted ? 'deletes' : 'upserts'] += 1;
      if (text.length < batchChars) continue;
      if (!(await write(text))) return null;
      signal.throwIfAborted();
      text = '';
    }
  }
  if (text !== '' && !(await write(text))) return null;
  signal.throwIfAborted();
  return written;
}
