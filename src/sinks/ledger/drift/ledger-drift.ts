import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FieldDrift, JsonType } from '../../../core/records.ts';
import type { Drift, KnownDrift } from '../../drift.ts';
import type { Lease } from '../../sink.ts';
import type { HeldConnector, Ledger } from '../ledger.ts';
import type { WriteStamp } from '../record-store.ts';
import { toSinkError } from '../sink-error.ts';
import { columnsMissingIn } from '../tables.ts';
import { inRun } from '../transact.ts';
import { chooseColumns } from './choose-columns.ts';
import { prepareDriftRows, type DriftRows } from './drift-rows.ts';
import { driftNoting } from './note-drift.ts';

/** `_sync_drift`, with a memory of what it holds. */
export interface DriftNotes extends Pick<DriftRows, 'of'> {
  /** Notes a page's drift, inside the transaction that stores the page. */
  note(connector: ConnectorName, drift: readonly FieldDrift[], stamp: WriteStamp): void;
}

export function prepareDrift(db: Database.Database): DriftNotes {
  const rows = prepareDriftRows(db);
  return { of: (connector, entity) => rows.of(connector, entity), note: driftNoting(rows) };
}

/** What a file sink knows of undeclared fields, and the columns that it gives them. */
export function ledgerDrift(ledger: Ledger, heldOf: (lease: Lease) => HeldConnector): Drift {
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
      const held = heldOf(lease);
      const { connector, epoch } = held;
      const table = ledger.tables.known(connector, entity);
      const wanted = table === undefined ? [] : chooseColumns(ledger.drift.of(connector, entity), table);
      // Most runs meet nothing new: they need no transaction to say so. Only this holder could add to either list meanwhile.
      if (table === undefined || wanted.length === 0) return [];
      return inRun(ledger, held, run, (_current, stamp) => {
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
  const table = ledger.tables.known(connector, entity);
  const accepted = ledger.drift.of(connector, entity).filter(({ isRefused }) => isRefused === 0);
  const misfits = new Map<string, Set<JsonType>>();
  for (const { field, type } of accepted.filter(({ kind }) => kind === 'misfit')) {
    misfits.set(field, (misfits.get(field) ?? new Set<JsonType>()).add(type));
  }
  return {
    evolved: table?.evolved ?? [],
    fields: new Set(accepted.filter(({ kind }) => kind === 'undeclared').map(({ field }) => field)),
    misfits,
    isEstablished: (table?.asOf ?? null) !== null,
  };
}
