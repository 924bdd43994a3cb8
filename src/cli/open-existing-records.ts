import { ledgerFile } from '../sinks/open-history.ts';
import type { SinkSettings } from '../settings/settings.ts';
import { isSinkThere } from '../sinks/ledger/open-database.ts';
import type { RecordReader } from '../sinks/record-reader.ts';
import { openRecords } from '../sinks/registry.ts';

/** A sink's records in one state; null when nothing has been synced into it yet. The caller disposes it. */
export function openExistingRecords(sink: SinkSettings): RecordReader | null {
  return isSinkThere(ledgerFile(sink)) ? openRecords(sink) : null;
}
