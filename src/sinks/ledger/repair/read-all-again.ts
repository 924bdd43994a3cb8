import type { ConnectorName } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { transitions } from '../partitions/transitions.ts';

/** Stored rows were lost: every walk begins anew and in full, and windows of backfills that are done are read again. */
export async function readAllAgain(tx: Tx, connector: ConnectorName): Promise<void> {
  await transitions.distrust(tx, { connector });
  await tx.run('DELETE FROM _sync_windows WHERE connector = :connector', { connector });
}
