import { SyncError } from '../../../core/errors.ts';
import type { Copies } from '../../copies.ts';
import { noRun, withLock } from '../acquire.ts';
import type { Ledger } from '../ledger.ts';
import type { RecordCopies } from '../record-store.ts';
import { inTransaction } from '../transact.ts';
import { discardCopy, openLedgerTarget } from './copy-in.ts';
import { openLedgerSource } from './copy-out.ts';

/** `Copies` of a file sink. */
export function ledgerCopies(ledger: Ledger): Copies {
  const records = (): RecordCopies => {
    const { copies } = ledger.store;
    if (copies !== null) return copies;
    throw new SyncError(
      `The sink at ${ledger.file} is of a type that connectors cannot be copied from or into.`,
      {
        code: 'SINK_INCOMPATIBLE',
        recovery: 'stop',
        context: { file: ledger.file },
      },
    );
  };
  return {
    openSource: async (connector, holder) => await openLedgerSource(ledger, records(), connector, holder),
    openTarget: async (copied, how) => await openLedgerTarget(ledger, records(), copied, how),
    discard: async (connector) => await discardCopy(ledger, connector),
    reopen: async (connector) =>
      await withLock(ledger, connector, async () =>
        inTransaction(ledger, noRun, () => ledger.connectors.reopen(connector)),
      ),
  };
}
