import { chooseColumns, knownDrift } from '../../decisions/drift-columns.ts';
import type { Drift } from '../../drift.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { Ledger } from '../ledger.ts';
import { renewCurrentViews } from '../../postgres/records/current-views.ts';
import { addColumns } from '../../postgres/records/ensure-tables.ts';
import { fillFromExtra, fittingColumns } from '../../postgres/records/fill-from-extra.ts';
import { tableAt } from '../../postgres/records/names.ts';
import { columnsThatFit, usedColumns } from '../../postgres/records/row-limits.ts';
import { addEvolved, knownTables } from '../tables.ts';
import type { InLease } from '../transact.ts';
import { driftOf } from './note-drift.ts';

/** What a sink in PostgreSQL knows of undeclared fields, and the columns that it gives them. */
export function postgresDrift({ server, at }: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) =>
      await server.read(async (tx) => {
        const drift = await driftOf(tx, at, connector, entities);
        const tables = await knownTables(tx, at, connector, entities);
        return new Map(
          entities.map((entity) => {
            const { evolved = [], asOf = null } = tables.get(entity) ?? {};
            return [entity, knownDrift(drift.get(entity) ?? [], evolved, asOf !== null)];
          }),
        );
      }),
    evolve: async (lease, run, entity) =>
      await inLease(
        lease,
        run,
        async ({ held: { connector }, tx, stamp }) => {
          const table = (await knownTables(tx, at, connector, [entity])).get(entity);
          const drift = (await driftOf(tx, at, connector, [entity])).get(entity) ?? [];
          const wanted = table === undefined ? [] : chooseColumns(drift, table);
          if (table === undefined || wanted.length === 0) return [];
          const name = tableAt(at, connector, entity);
          const fitting = await fittingColumns(tx, name, wanted);
          const missing = columnsMissingIn(fitting, table.stored);
          const added = new Set(columnsThatFit(table.stored, missing, await usedColumns(tx, name)));
          // A service that invents fields stops no run: those without room for a column stay in `_extra`.
          const columns = fitting.filter((column) => added.has(column) || !missing.includes(column));
          if (columns.length === 0) return [];
          await addEvolved(tx, at, connector, entity, columns);
          addColumns(tx, name, [...added]);
          await fillFromExtra(tx, name, columns, stamp);
          await renewCurrentViews(tx, at, connector);
          return columns;
        },
        { isLong: true },
      ),
  };
}
