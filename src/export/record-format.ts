import type { StoredRecord } from '../sinks/record-reader.ts';

/** How records become text. */
export interface RecordFormat {
  /** Before the first record; '' where nothing stands there. */
  readonly head: string;
  /** One record, with its line end. */
  readonly text: (record: StoredRecord) => string;
}
