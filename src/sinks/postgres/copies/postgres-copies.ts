import type { ConnectorName } from '../../../core/names.ts';
import type { Copies } from '../../copies.ts';
import type { Holder } from '../../lease.ts';
import { noRun } from '../lease/acquire.ts';
import { noteCopiedTo } from '../lease/connectors.ts';
import type { Leases } from '../lease/leases.ts';
import type { Ledger } from '../ledger.ts';
import type { Tx } from '../session.ts';
import { fencedTransaction } from '../transact.ts';
import { discardCopy, openPostgresTarget } from './copy-in.ts';
import { openPostgresSource } from './copy-out.ts';

/** `Copies` of a sink in PostgreSQL. */
export function postgresCopies(ledger: Ledger, leases: Leases): Copies {
  /** One transaction, with the connector held meanwhile. */
  const holding = async <Result>(
    connector: ConnectorName,
    holder: Holder,
    work: (tx: Tx) => Promise<Result>,
  ): Promise<Result> => {
    const taken = await leases.take(connector, holder, async () => undefined);
    try {
      const held = { ...taken, definitionHash: '', run: null };
      return await taken.inTurn(async () => await fencedTransaction(ledger, held, noRun, work));
    } finally {
      await taken.release();
    }
  };
  const { at } = ledger;
  return {
    openSource: async (connector, holder) => await openPostgresSource(ledger, leases, connector, holder),
    openTarget: async (copied, how) => await openPostgresTarget(ledger, leases, copied, how),
    discard: async (connector, holder) =>
      await holding(connector, holder, async (tx) => await discardCopy(tx, at, connector)),
    reopen: async (connector, holder) =>
      await holding(connector, holder, async (tx) => await noteCopiedTo(tx, at, connector, null)),
  };
}
