import { chooseColumns, knownDrift, widerTable } from '../../decisions/drift-columns.ts';
import type { Drift } from '../../drift.ts';
import type { InLease, Ledger } from '../ledger.ts';
import { addEvolved, knownTables } from '../tables.ts';
import { driftOf } from './note-drift.ts';

/** What a sink knows of undeclared fields, and the columns that it gives them. */
export function ledgerDrift({ db, records }: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) =>
      await db.read(async (tx) => {
        const drift = await driftOf(tx, connector, entities);
        const tables = await knownTables(tx, connector, entities);
        return new Map(
          entities.map((entity) => {
            const { evolved = [], asOf = null } = tables.get(entity) ?? {};
            return [entity, knownDrift(drift.get(entity) ?? [], evolved, asOf !== null)];
          }),
        );
      }),
    evolve: inLease(
      async ({ held: { connector }, tx, stamp }, entity) => {
        const table = (await knownTables(tx, connector, [entity])).get(entity);
        const drift = (await driftOf(tx, connector, [entity])).get(entity) ?? [];
        const wanted = table === undefined ? [] : chooseColumns(drift, table);
        if (table === undefined || wanted.length === 0) return [];
        // A service that invents fields stops no run: those without room for a column stay in `_extra`.
        const before = {
          connector,
          table: { entity, key: table.key, columns: table.stored },
          stored: table.stored,
        };
        const columns = await records.fitting(tx, before, wanted);
        if (columns.length === 0) return [];
        await addEvolved(tx, connector, entity, columns);
        const place = { connector, table: widerTable(entity, table, columns), stored: table.stored };
        await records.ensure(tx, place);
        await records.fill(tx, place, columns, stamp);
        await records.renewViews(tx, connector);
        return columns;
      },
      { isLong: true },
    ),
  };
}
