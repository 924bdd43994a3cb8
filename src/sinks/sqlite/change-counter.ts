import type { ConnectorName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { Stamp } from '../ledger/record-table.ts';

/**
 * The change counter of the file, in one transaction: it has the write lock, so numbers are given in the order of
 * commits, and never twice. `save` is called at its end.
 */
export function takeSeqsOf(tx: Tx): Pick<Stamp, 'takeSeqs'> & { readonly save: () => void } {
  let stored: Promise<number> | null = null;
  let taken = 0;
  return {
    takeSeqs: async (count) => {
      stored ??= newestSeq(tx);
      const seq = await stored;
      const first = seq + taken + 1;
      taken += count;
      return first;
    },
    save: () => {
      if (taken > 0) tx.put('UPDATE _sync_meta SET seq = seq + :taken', { taken });
    },
  };
}

/** The newest change number of the file, whatever the connector. */
export async function newestSeq(tx: Tx): Promise<number> {
  return (await tx.first<{ readonly seq: number }>('SELECT seq FROM _sync_meta'))?.seq ?? 0;
}

/** Its next one is above `least`. */
export async function raiseSeq(tx: Tx, _connector: ConnectorName, least: number): Promise<void> {
  await tx.run('UPDATE _sync_meta SET seq = :least WHERE seq < :least', { least });
}
