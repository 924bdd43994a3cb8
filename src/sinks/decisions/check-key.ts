import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';

/** Throws `SyncError` SINK_INCOMPATIBLE where the stored rows have another key than the definition's table: they cannot be compared. */
export function checkKey(
  connector: ConnectorName,
  { entity, key }: Pick<EntityTable, 'entity' | 'key'>,
  stored: Pick<EntityTable, 'key'>,
): void {
  if (stored.key.join() === key.join()) return;
  throw new SyncError(
    `The rows of ${connector}/${entity} are keyed by (${stored.key.join(', ')}) and the definition says (${key.join(', ')}): they cannot be compared. Sync first, which says what to do.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity } },
  );
}
