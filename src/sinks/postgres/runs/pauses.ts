import type { ConnectorName } from '../../../core/names.ts';
import type { Pause } from '../../lease.ts';
import type { Tx } from '../session.ts';

/** Notes that the connector is not to be run; keeps `since` where it is paused already. */
export async function writePause(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  { since, reason }: Pause,
): Promise<void> {
  await tx.run(
    `INSERT INTO ${at}_sync_pauses (connector, since, reason) VALUES (:connector, :since, :reason)
     ON CONFLICT (connector) DO UPDATE SET reason = excluded.reason`,
    { connector, since, reason },
  );
}

/** True when the connector was paused. */
export async function dropPause(tx: Tx, at: string, connector: ConnectorName): Promise<boolean> {
  return (await tx.run(`DELETE FROM ${at}_sync_pauses WHERE connector = :connector`, { connector })) > 0;
}
