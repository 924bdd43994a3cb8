import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import type { KeyAndHash, KeyReader } from '../record-reader.ts';
import type { DatabaseOptions } from './open-database.ts';
import { inBatches, openReadTransaction, type ReadTransaction } from './read-transaction.ts';

/** What a file sink says of its keys: `select` reads those of a table that is there. */
export function openStoredKeys(
  options: Pick<DatabaseOptions, 'file' | 'kind'>,
  select: (db: ReadTransaction['db'], connector: ConnectorName, table: EntityTable) => Iterable<KeyAndHash>,
): KeyReader {
  const transaction = openReadTransaction(options);

  async function* keys(connector: ConnectorName, table: EntityTable): AsyncGenerator<readonly KeyAndHash[]> {
    const stored = await transaction.table(connector, table.entity);
    if (stored === null) return;
    if (stored.key.join() !== table.key.join()) throw otherKey(connector, table, stored);
    yield* inBatches(select(transaction.db, connector, table), options.file);
  }

  return { keys, [Symbol.asyncDispose]: () => transaction[Symbol.asyncDispose]() };
}

function otherKey(connector: ConnectorName, { entity, key }: EntityTable, stored: EntityTable): SyncError {
  return new SyncError(
    `The rows of ${connector}/${entity} are keyed by (${stored.key.join(', ')}) and the definition says (${key.join(', ')}): they cannot be compared. Sync first, which says what to do.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity } },
  );
}
