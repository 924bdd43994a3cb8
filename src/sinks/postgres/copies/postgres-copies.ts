import type { Copies } from '../../copies.ts';
import { noRun } from '../lease/acquire.ts';
import type { Leases } from '../lease/leases.ts';
import type { Ledger } from '../ledger.ts';
import { fencedTransaction } from '../transact.ts';
import { discardCopy, openPostgresTarget } from './copy-in.ts';
import { openPostgresSource } from './copy-out.ts';

/** `Copies` of a sink in PostgreSQL. */
export function postgresCopies(ledger: Ledger, leases: Leases): Copies {
  return {
    openSource: async (connector, holder) => await openPostgresSource(ledger, leases, connector, holder),
    openTarget: async (copied, how) => await openPostgresTarget(ledger, leases, copied, how),
    discard: async (connector, holder) => {
      const taken = await leases.take(connector, holder, async () => undefined);
      try {
        const held = { ...taken, definitionHash: '', run: null };
        return await taken.inTurn(
          async () =>
            await fencedTransaction(
              ledger,
              held,
              noRun,
              async (tx) => await discardCopy(tx, ledger.at, connector),
            ),
        );
      } finally {
        await taken.release();
      }
    },
  };
}
