import { keyTextOf, type ColumnValue } from '../../../core/records.ts';
import type { CopiedRecord, CopiedTable, CopiedVersion } from '../../copies.ts';
import { removeRows } from '../purges/remove-found.ts';
import { emptyRaw } from '../raw-rows.ts';
import { renewTable } from '../tables.ts';
import { rowsAtOnce, type Masked, type Rewriting } from './rewriting.ts';

/** Gives how many rows change or go. */
export async function maskRows(
  { connector, records, signal, step }: Rewriting,
  { masking, table }: Masked,
): Promise<number> {
  const { entity, stored } = table;
  const of = { connector, entity };
  const keyOf = keyReader(table);
  return await inBatches(signal, (from) =>
    step(
      async (tx) => {
        const rows = await records.readWhole(tx, connector, table, from, rowsAtOnce);
        const changed: CopiedRecord[] = [];
        const gone: CopiedRecord[] = [];
        for (const row of rows) {
          const cells = masking.cells(stored, row);
          if (cells === null) continue;
          if (keyOf(cells) === keyOf(row)) changed.push({ ...row, ...cells, volatileHash: null });
          else gone.push(row);
        }
        return { last: rows.at(-1)?.row, changed, gone, count: changed.length + gone.length };
      },
      async (tx, { changed, gone }) => {
        await records.rewriteWhole(tx, connector, table, changed);
        await emptyRaw(
          tx,
          of,
          changed.map(({ row }) => row),
        );
        const rows = new Map(gone.map((row) => [row.row, { ...row, keyText: keyOf(row) }]));
        const columns = { entity, columns: stored, key: table.key };
        await removeRows({ tx, records, connector }, { entity, table: columns, rows, moved: [] });
        await renewTable(tx, of);
      },
      entity,
    ),
  );
}

/** The same of closed versions. */
export async function maskVersions(
  { connector, records, signal, step }: Rewriting,
  { masking, table }: Masked,
): Promise<number> {
  const { entity, stored } = table;
  return await inBatches(signal, (from) =>
    step(
      async (tx) => {
        const versions = await records.readVersions(tx, connector, table, from, rowsAtOnce);
        const changed = versions.flatMap((version): CopiedVersion[] => {
          const cells = masking.cells(stored, version);
          return cells === null ? [] : [{ ...version, ...cells }];
        });
        return { last: versions.at(-1)?.seqTo, changed, count: changed.length };
      },
      async (tx, { changed }) => {
        await records.writeVersions(tx, connector, table, changed);
        await renewTable(tx, { connector, entity });
      },
      entity,
    ),
  );
}

/** `next` takes the rows behind a number, and gives the last number of its batch; undefined: there were none. */
async function inBatches(
  signal: AbortSignal,
  next: (from: number) => Promise<{ readonly last: number | undefined; readonly count: number }>,
): Promise<number> {
  let count = 0;
  for (let from: number | undefined = 0; from !== undefined;) {
    signal.throwIfAborted();
    const batch = await next(from);
    count += batch.count;
    from = batch.last;
  }
  return count;
}

function keyReader({
  key,
  stored,
}: CopiedTable): (row: { readonly values: readonly ColumnValue[] }) => string {
  const indexes = key.map((name) => stored.findIndex((column) => column.name === name));
  return ({ values }) => keyTextOf(indexes.map((index) => values[index] ?? null));
}
