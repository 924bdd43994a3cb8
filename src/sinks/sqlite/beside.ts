import type { ConnectorName } from '../../core/names.ts';
import type { SqliteHow } from '../../sql/sqlite/open-sqlite-database.ts';
import type { ChangeLines, RecordTables } from '../ledger/driver.ts';

/** What a sink keeps in files beside its database, in step with its transactions. */
export interface Beside {
  readonly how: Required<Pick<SqliteHow, 'beforeCommit' | 'committed' | 'rolledBack'>>;
  readonly records: RecordTables;
  readonly lines: ChangeLines;
  /** In the transaction that takes the connector. */
  taken(connector: ConnectorName, epoch: number): void;
  released(connector: ConnectorName): void;
}
