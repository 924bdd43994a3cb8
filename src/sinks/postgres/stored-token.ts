import { randomUUID } from 'node:crypto';
import type { ConnectorName } from '../../core/names.ts';
import type { WriteTx } from './server.ts';

/**
 * A token that the transaction has to write into the connector's counter, as `last_commit`: where its COMMIT is not answered, what stands there
 * says whether it was stored. The row is asked for with a lock, which waits for the transaction where it still runs.
 */
export function newToken(tx: WriteTx, at: string, connector: ConnectorName): string {
  const token = randomUUID();
  tx.proveBy(async (later) => {
    const found = await later.first<{ isLast: boolean | null }>(
      `SELECT last_commit = :token::uuid AS is_last FROM ${at}_sync_counters WHERE connector = :connector FOR UPDATE`,
      { connector, token },
    );
    return found?.isLast === true;
  });
  return token;
}
