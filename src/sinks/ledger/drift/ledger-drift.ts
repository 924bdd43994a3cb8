import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { chooseColumns, summarizeDrift } from '../../decisions/choose-columns.ts';
import type { Drift, KnownDrift } from '../../drift.ts';
import type { Ledger } from '../ledger.ts';
import { toSinkError } from '../sink-error.ts';
import { columnsMissingIn } from '../tables.ts';
import type { InLease } from '../transact.ts';

/** What a file sink knows of undeclared fields, and the columns that it gives them. */
export function ledgerDrift(ledger: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) => {
      try {
        return ledger.db
          .transaction(
            () => new Map(entities.map((entity) => [entity, knownDrift(ledger, connector, entity)])),
          )
          .deferred();
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
        ledger.tables.addEvolved(connector, entity, columns);
        const { key, stored, declared, evolved } = table;
        const before = columnsMissingIn(declared, evolved);
        const wider = { entity, key, columns: [...before, ...evolved, ...columns] };
        ledger.store.evolve({ connector, epoch, table: wider, stored, filled: columns, stamp });
        return columns;
      });
    },
  };
}

function knownDrift(ledger: Ledger, connector: ConnectorName, entity: EntityName): KnownDrift {
  return summarizeDrift(ledger.drift.of(connector, entity), ledger.tables.known(connector, entity));
}
