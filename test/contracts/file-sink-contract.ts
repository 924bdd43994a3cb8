import { describe } from 'vitest';
import type { FileSinkKind } from './file-sink/file-sink-kind.ts';
import { fullDisk } from './file-sink/full-disk.ts';
import { openingFiles } from './file-sink/opening-files.ts';
import { describeSink } from './sink-contract.ts';

/** The promises of a sink, and those about its files, run on a sink whose ledger is a SQLite file. */
export function describeFileSink(
  name: string,
  kind: FileSinkKind,
  options: { readonly sharesLedger?: boolean } = {},
): void {
  describeSink(name, kind, options);
  describe(`files of a ${name} sink`, () => {
    describe('opening', () => openingFiles(kind));
    describe('on a full disk', () => fullDisk(kind));
  });
}
