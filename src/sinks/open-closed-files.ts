import type { ClosedFiles } from './closed-files.ts';
import { openJsonlClosedFiles } from './jsonl/closed-files.ts';
import { isSinkThere } from './ledger/open-database.ts';
import { ledgerFile } from './open-history.ts';
import type { SinkPlace } from './sink-options.ts';

/** Null where the sink closes no files, or nothing has been synced into it yet. The caller disposes it. */
export function openClosedFiles(sink: SinkPlace): ClosedFiles | null {
  switch (sink.type) {
    case 'sqlite':
      return null;
    case 'jsonl':
      return isSinkThere(ledgerFile(sink)) ? openJsonlClosedFiles(sink.directory) : null;
  }
}
