import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { chooseColumns, knownDrift, widerTable } from '../../decisions/drift-columns.ts';
import { withAdded } from '../../decisions/stored-table.ts';
import type { Drift, KnownDrift } from '../../drift.ts';
import type { Ledger } from '../ledger.ts';
import { toSinkError } from '../sink-error.ts';
import type { InLease } from '../transact.ts';

/** What a file sink knows of undeclared fields, and the columns that it gives them. */
export function ledgerDrift(ledger: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) => {
      const read = ledger.db.transaction(
        () => new Map(entities.map((entity) => [entity, knownOf(ledger, connector, entity)])),
      );
      try {
        return read.deferred();
      } catch (error) {
        throw toSinkError(error, ledger.file);
      }
    },
    evolve: async (lease, run, entity) => {
      const { connector, epoch } = lease;
      const table = ledger.tables.known(connector, entity);
      const wanted = table === undefined ? [] : chooseColumns(ledger.drift.of(connector, entity), table);
      // Most runs meet nothing new: they need no transaction to say so. Only this holder could add to either list meanwhile.
      if (table === undefined || wanted.length === 0) return [];
      return inLease(lease, run, ({ stamp }) => {
        const columns = ledger.store.fitting(connector, entity, wanted);
        if (columns.length === 0) return [];
        ledger.tables.save(connector, entity, withAdded(table, columns));
        const wider = widerTable(entity, table, columns);
        const { stored } = table;
        ledger.store.evolve({ connector, epoch, table: wider, stored, filled: columns, stamp });
        return columns;
      });
    },
  };
}

function knownOf({ tables, drift }: Ledger, connector: ConnectorName, entity: EntityName): KnownDrift {
  const { evolved = [], asOf = null } = tables.known(connector, entity) ?? {};
  return knownDrift(drift.of(connector, entity), evolved, asOf !== null);
}
