import { ledgerSink } from '../ledger/ledger-sink.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { openLedgerFile } from '../sqlite/open-ledger.ts';
import type { Beside } from '../sqlite/take.ts';
import { sqliteTables } from '../sqlite/records/record-tables.ts';
import { openChangeFiles, type ChangeFiles } from './change-files.ts';
import { linedTables } from './lined-tables.ts';
import { countLost, giveUpLost } from './lost-rows.ts';
import { findDamagedFiles, recoverFiles } from './recover.ts';
import { rewriteLines } from './rewrite-lines.ts';
import { jsonlFormat } from './schema.ts';

/**
 * Changes as lines of files below `directory`. The ledger in `file` there has the records too, and every file's length.
 */
export async function openJsonlSink(
  options: OpenHow & { readonly directory: string; readonly file: string },
): Promise<Sink> {
  const { directory, durability, signal } = options;
  const ledger = await openLedgerFile({
    ...options,
    format: jsonlFormat,
    records: sqliteTables,
    openBeside: (writer, records) => {
      const changes = openChangeFiles(writer, { directory, isDurable: durability === 'full' });
      return { ...besideOf(changes, signal), records: linedTables(records, changes) };
    },
  });
  return ledgerSink(ledger);
}

function besideOf(changes: ChangeFiles, signal: AbortSignal | undefined): Omit<Beside, 'records'> {
  return {
    how: { beforeCommit: changes.flush, committed: changes.settle, rolledBack: changes.discard },
    taken: changes.begin,
    released: changes.release,
    lines: {
      recover: async (tx, connector) => await recoverFiles(tx, changes, connector),
      end: changes.endRun,
      findDamage: async (connector, entities) => await findDamagedFiles(changes, connector, entities, signal),
      rewrite: async (lines, transact) => await rewriteLines(changes, lines, transact),
      countLost,
      giveUpLost,
    },
  };
}
