import { isDeclaredName } from '../../core/names.ts';
import type { Column, FieldDrift, FieldType, JsonType } from '../../core/records.ts';
import type { KnownDrift } from '../drift.ts';
import { isJsonColumn, type KnownTable } from '../ledger/tables.ts';

/** A field and a type of its values, as it is noted. */
export interface StoredDrift {
  readonly field: string;
  readonly kind: FieldDrift['kind'];
  readonly type: JsonType;
  /** 1: only in quarantined records so far. */
  readonly isRefused: 0 | 1;
}

/** `drift`: of one entity. `table`: undefined where none was declared. */
export function summarizeDrift(drift: readonly StoredDrift[], table: KnownTable | undefined): KnownDrift {
  const accepted = drift.filter(({ isRefused }) => isRefused === 0);
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
export function chooseColumns(drift: readonly StoredDrift[], table: KnownTable): readonly Column[] {
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
