import type { ConnectorName } from '../../../core/names.ts';
import type { FactName, FactRow, FactValue } from '../../copies.ts';
import { factColumns, type FactColumn } from '../../copies/facts.ts';
import type { SetType } from '../../../sql/statement.ts';
import type { Tx } from '../../../sql/database.ts';

/** A column that this ledger has beside those of the fact. */
interface OwnColumn {
  readonly name: string;
  readonly of: (row: FactRow) => FactValue;
}

export interface CopiedFacts {
  readonly connector: ConnectorName;
  readonly rows: readonly FactRow[];
}

const types: Readonly<Record<FactColumn['meaning'], SetType>> = {
  text: 'text',
  integer: 'bigint',
  run: 'bigint',
  partition: 'bigint',
  order: 'bigint',
  bytes: 'bytea',
};

/** One statement for a batch of rows of `_sync_<of>`, with the numbers given. `more`: columns of bytes. */
export function insertFacts(
  of: FactName,
  more: readonly OwnColumn[] = [],
): (tx: Tx, copied: CopiedFacts) => Promise<number> {
  // Names of columns may be words of SQL: the set has others.
  const columns = [
    ...factColumns(of).flatMap(({ name, meaning }) =>
      meaning === 'order' ? [] : [{ name, type: types[meaning], of: (row: FactRow) => row[name] ?? null }],
    ),
    ...more.map((one) => ({ ...one, type: types.bytes })),
  ].map((column, index) => ({ ...column, cell: `c${index}` }));
  const isOfConnector = of !== 'counts';
  const names = [...(isOfConnector ? ['connector'] : []), ...columns.map(({ name }) => `"${name}"`)];
  const cells = [
    ...(isOfConnector ? ['CAST(:connector AS text)'] : []),
    ...columns.map(({ cell }) => `v.${cell}`),
  ];
  const set = columns.map(({ cell, type }) => `${cell} ${type}`).join(', ');
  const sql = `INSERT INTO _sync_${of} (${names.join(', ')}) {own ids} SELECT ${cells.join(', ')} FROM {v: ${set}, n} ORDER BY v.n`;
  return async (tx, { connector, rows }) =>
    await tx.run(sql, {
      connector,
      v: rows.map((row) => Object.fromEntries(columns.map((column) => [column.cell, column.of(row)]))),
    });
}
