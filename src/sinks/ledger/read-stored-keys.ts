import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import type { KeyAndHash, KeyReader } from '../read-keys.ts';
import type { DatabaseOptions } from './open-database.ts';
import { openReadTransaction, type ReadTransaction } from './read-transaction.ts';
import { toSinkError } from './sink-error.ts';

/** What a file sink says of its keys: `select` reads those of a table that is there. */
export function openStoredKeys(
  options: Pick<DatabaseOptions, 'file' | 'kind'>,
  select: (db: ReadTransaction['db'], connector: ConnectorName, table: EntityTable) => Iterable<KeyAndHash>,
): KeyReader {
  const transaction = openReadTransaction(options);

  function* keys(connector: ConnectorName, table: EntityTable): Generator<KeyAndHash> {
    const stored = transaction.table(connector, table.entity);
    if (stored === null) return;
    if (stored.key.join() !== table.key.join()) throw otherKey(connector, table, stored);
    try {
      yield* select(transaction.db, connector, table);
    } catch (error) {
      throw toSinkError(error, options.file);
    }
  }

  return { keys, [Symbol.dispose]: () => transaction[Symbol.dispose]() };
}

function otherKey(connector: ConnectorName, { entity, key }: EntityTable, stored: EntityTable): SyncError {
  return new SyncError(
    `The rows of ${connector}/${entity} are keyed by (${stored.key.join(', ')}) and the definition says (${key.join(', ')}): they cannot be compared. Sync first, which says what to do.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity } },
  );
}
