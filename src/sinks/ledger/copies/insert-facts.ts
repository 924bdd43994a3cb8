import type { ConnectorName } from '../../../core/names.ts';
import {
  factColumns,
  type FactColumn,
  type FactName,
  type FactRow,
  type FactValue,
} from '../../copies/facts.ts';
import { encodeArray, type BinaryType } from '../../../sql/postgres/encode-binary.ts';
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

const types: Readonly<Record<FactColumn['meaning'], BinaryType>> = {
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
  const columns = [
    ...factColumns(of).flatMap(({ name, meaning }) =>
      meaning === 'order' ? [] : [{ name, type: types[meaning], of: (row: FactRow) => row[name] ?? null }],
    ),
    ...more.map((one) => ({ ...one, type: types.bytes })),
  ];
  const names = columns.map(({ name }) => `"${name}"`);
  const arrays = columns.map(({ type }, index) => `:c${index}::${type}[]`);
  const ofConnector = of === 'counts' ? [] : [':connector::text'];
  return async (tx, { connector, rows }) =>
    await tx.run(
      `INSERT INTO _sync_${of} (${[...(of === 'counts' ? [] : ['connector']), ...names].join(', ')}) OVERRIDING SYSTEM VALUE
       SELECT ${[...ofConnector, ...columns.map((_, index) => `v.c${index}`)].join(', ')}
       FROM unnest(${arrays.join(', ')}) WITH ORDINALITY AS v(${columns.map((_, index) => `c${index}`).join(', ')}, n) ORDER BY v.n`,
      {
        connector,
        ...Object.fromEntries(
          columns.map(({ type, of: valueOf }, index) => [`c${index}`, encodeArray(type, rows.map(valueOf))]),
        ),
      },
    );
}
