import { join } from 'node:path';
import { systemClock } from '../../core/clock.ts';
import type { OpenHow, SinkAccess } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { ledgerFileAccess } from '../sqlite/sqlite-access.ts';
import { isSinkThere, storedVersion } from '../sqlite/open-database.ts';

export function jsonlAccess(directory: string): SinkAccess {
  const file = join(directory, '_ledger.db');
  const open = async (how: OpenHow): Promise<Sink> => {
    const { openJsonlSink } = await import('./jsonl-sink.ts');
    return await openJsonlSink({ ...how, directory, file });
  };
  /** A ledger of version 7 has no tables of records to read: opened for writing, it gets them from its lines. */
  const bringUpToDate = async (): Promise<void> => {
    if (!isSinkThere(file)) return;
    const { jsonlFormat } = await import('./schema.ts');
    if (storedVersion({ file, format: jsonlFormat }) !== 7) return;
    await using _opened = await open({ durability: 'full', clock: systemClock });
  };
  return ledgerFileAccess({
    file,
    place: directory,
    loadFormat: async () => (await import('./schema.ts')).jsonlFormat,
    beforeReading: bringUpToDate,
    open,
    openClosedFiles: async () => {
      if (!isSinkThere(file)) return null;
      const { openJsonlClosedFiles } = await import('./closed-files.ts');
      return openJsonlClosedFiles(directory, file);
    },
  });
}
