import { SyncError } from '../../../core/errors.ts';
import type { Instant } from '../../../core/clock.ts';
import type { RunId } from '../../../core/names.ts';
import { IdentityChangedError } from '../../acquire-errors.ts';
import type { AdoptedIdentity } from '../../repair.ts';
import type { Ledger } from '../ledger.ts';
import { lockConnector } from '../lock-connector.ts';
import { inTransaction } from '../transact.ts';

/** No record is written, so no run stands beside one. */
const noRun = '' as RunId;

/** `Repair.adopt`. A resumed walk would send positions of the old address to the new one: unfinished runs end here. */
export async function adopt(
  ledger: Ledger,
  { connector, baseUrl, connectorId, definition }: AdoptedIdentity,
  now: Instant,
): Promise<void> {
  const lock = lockConnector(ledger, connector);
  try {
    await inTransaction(ledger, noRun, () => {
      const stored = ledger.connectors.identity(connector);
      if (stored === undefined) {
        throw new SyncError(
          `The sink holds nothing of connector "${connector}". Sync it, there is nothing to adopt.`,
          {
            code: 'USAGE',
            recovery: 'stop',
          },
        );
      }
      if (stored.definition !== definition) {
        const difference = { what: 'definition', stored: stored.definition, given: definition } as const;
        throw new IdentityChangedError(connector, [difference]);
      }
      ledger.runs.interruptRunning(connector);
      ledger.runs.forbidContinuing(connector);
      ledger.db
        .prepare('UPDATE _sync_connectors SET base_url = ?, connector_id = ? WHERE connector = ?')
        .run(baseUrl, connectorId, connector);
      ledger.db.prepare('UPDATE _sync_tables SET adopted_at = ? WHERE connector = ?').run(now, connector);
    });
  } finally {
    lock.release();
  }
}
