import { isDeclaredName, type ConnectorName, type EntityName } from '../../../core/names.ts';
import type { Column, FieldType, JsonType } from '../../../core/records.ts';
import type { Drift, KnownDrift } from '../../drift.ts';
import type { Ledger } from '../ledger.ts';
import { toSinkError } from '../sink-error.ts';
import { columnsMissingIn, isJsonColumn, type KnownTable } from '../tables.ts';
import type { InLease } from '../transact.ts';
import type { StoredDrift } from './note-drift.ts';

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

/**
 * The columns that an entity's undeclared fields could have: those whose name a definition could declare, that no column has
 * (without case), and whose values were all of one type. Integers and other numbers are numbers.
 */
function chooseColumns(drift: readonly StoredDrift[], table: KnownTable): readonly Column[] {
  const declared = new Set(table.declared.map(({ name }) => name.toLowerCase()));
  const storedType = new Map(table.stored.map(({ name, type }) => [name, type]));
  const storedDrift = drift.filter(({ isRefused }) => isRefused === 0);
  const fields = new Set(storedDrift.map(({ field }) => field));
  return [...fields].flatMap((field): readonly Column[] => {
    const met = storedDrift.filter((one) => one.field === field);
    // A field that was declared while some of its values did not fit has a column already.
    const isUndeclared = met.every(({ kind }) => kind === 'undeclared');
    const type = columnTypeOf(met.map((one) => one.type));
    if (!isDeclaredName(field) || !isUndeclared || type === null || declared.has(field)) return [];
    // A column that an earlier definition declared is still there, empty or not.
    const before = storedType.get(field) ?? type;
    if (before !== type && !(isJsonColumn(before) && isJsonColumn(type))) return [];
    return [{ name: field, type: before, isEvolved: true }];
  });
}

/** Null says nothing of a type; null where nothing else was met, or where no column holds all of it. */
function columnTypeOf(types: readonly JsonType[]): FieldType | null {
  const [first, ...others] = new Set(types.filter((type) => type !== 'null'));
  if (first === undefined) return null;
  if (others.length === 0) return first;
  const areNumbers = [first, ...others].every((type) => type === 'integer' || type === 'number');
  return areNumbers ? 'number' : null;
}
