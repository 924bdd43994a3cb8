import { grouped } from '../../core/grouped.ts';
import { isDeclaredName, systemColumns, type EntityName } from '../../core/names.ts';
import type { Column, EntityTable, FieldDrift, FieldType, JsonType } from '../../core/records.ts';
import type { DriftRow, KnownDrift } from '../readings.ts';
import { columnsMissingIn, isSameInStore, type TableColumns } from './stored-table.ts';

/** Drift noted for a field of an entity: its name, kind and type, never a value. */
export interface NotedDrift extends Pick<FieldDrift, 'field' | 'kind' | 'type'> {
  /** Only in quarantined records so far. */
  readonly isRefused: boolean;
}

/**
 * Fields of an entity that are noted by name; the others are noted as `otherFields`, so that a hostile service fills no
 * ledger.
 */
const maxFields = 200;
export const otherFields = '*';

/**
 * Drift noted for one entity. `isRefusedByKey`: text of field, kind and type -> whether it was met only in refused
 * records.
 */
export type DriftMemory = Readonly<ReturnType<typeof rememberDrift>>;

export function rememberDrift(stored: readonly NotedDrift[]) {
  return {
    isRefusedByKey: new Map(stored.map((one) => [keyOf(one), one.isRefused])),
    fields: new Set(stored.map(({ field }) => field)),
  };
}

/**
 * Note for a field that was met, which is remembered; null where the field is already noted. A field that was accepted
 * once never counts as refused again.
 */
export function newsOf({ isRefusedByKey, fields }: DriftMemory, met: FieldDrift): NotedDrift | null {
  const isNamed = fields.has(met.field) || fields.size < maxFields;
  const { kind, type, isRefused = false } = met;
  const named: NotedDrift = { field: isNamed ? met.field : otherFields, kind, type, isRefused };
  const key = keyOf(named);
  const wasRefused = isRefusedByKey.get(key);
  if (wasRefused === false || (wasRefused === true && isRefused)) return null;
  isRefusedByKey.set(key, isRefused);
  fields.add(named.field);
  return named;
}

function keyOf({ field, kind, type }: Pick<NotedDrift, 'field' | 'kind' | 'type'>): string {
  return `${kind} ${type} ${field}`;
}

/** Drift of an entity that a run knows. `isEstablished`: the entity was read completely at least once. */
export function knownDrift(
  drift: readonly NotedDrift[],
  evolved: readonly Column[],
  isEstablished: boolean,
): KnownDrift {
  const accepted = drift.filter(({ isRefused }) => !isRefused);
  const misfits = new Map<string, Set<JsonType>>();
  for (const { field, type } of accepted.filter(({ kind }) => kind === 'misfit')) {
    misfits.set(field, (misfits.get(field) ?? new Set<JsonType>()).add(type));
  }
  const fields = accepted.filter(({ kind }) => kind === 'undeclared').map(({ field }) => field);
  return { evolved, fields: new Set(fields), misfits, isEstablished };
}

/**
 * A row of PostgreSQL has room for about 430 long values. A service that invents fields stops no run: further ones stay
 * in `_extra`.
 */
const mostColumns = 400;

/**
 * Columns for undeclared fields: those with a declarable name that no column has (without case), and values of one
 * type. All numbers are one type.
 */
export function chooseColumns(drift: readonly NotedDrift[], table: TableColumns): readonly Column[] {
  const declared = new Set(table.declared.map(({ name }) => name.toLowerCase()));
  const storedType = new Map(table.stored.map(({ name, type }) => [name, type]));
  const accepted = drift.filter(({ isRefused }) => !isRefused);
  const fields = new Set(accepted.map(({ field }) => field));
  const columns = [...fields].flatMap((field): readonly Column[] => {
    const met = accepted.filter((one) => one.field === field);
    // A field that was declared while some of its values did not fit has a column already.
    const isUndeclared = met.every(({ kind }) => kind === 'undeclared');
    const type = columnTypeOf(met.map((one) => one.type));
    if (!isDeclaredName(field) || systemColumns.has(field)) return [];
    if (!isUndeclared || type === null || declared.has(field)) return [];
    // A column that an earlier definition declared is still there, empty or not.
    const before = storedType.get(field) ?? type;
    return isSameInStore(before, type) ? [{ name: field, type: before, isEvolved: true }] : [];
  });
  return columns.slice(0, Math.max(0, mostColumns - table.stored.length));
}

/** Whether an added column holds the values that were met. */
export function isHeldBy(evolved: readonly Column[], { field, kind, type }: Omit<NotedDrift, 'isRefused'>) {
  const column = evolved.find(({ name }) => name === field);
  if (column === undefined) return false;
  return kind === 'undeclared' || (type === 'number' && column.type === 'number');
}

/**
 * Chooses added integer columns in which other numbers were met: number columns take both, as far as doubles are exact.
 */
export function chooseWider(drift: readonly NotedDrift[], { evolved }: TableColumns): readonly Column[] {
  const met = drift.filter((one) => !one.isRefused && one.kind === 'misfit' && one.type === 'number');
  const fields = new Set(met.map(({ field }) => field));
  return evolved.filter(({ name, type }) => type === 'integer' && fields.has(name));
}

/** A null value has no type. The result is null where no other value was met, or where no column holds all of them. */
function columnTypeOf(types: readonly JsonType[]): FieldType | null {
  const [first, ...others] = new Set(types.filter((type) => type !== 'null'));
  if (first === undefined) return null;
  if (others.length === 0) return first;
  const areNumbers = [first, ...others].every((type) => type === 'integer' || type === 'number');
  return areNumbers ? 'number' : null;
}

/** The table with all columns that were added: as its plan declared it, then these. */
export function widerTable(entity: EntityName, { key, declared, evolved }: TableColumns): EntityTable {
  return { entity, key, columns: [...columnsMissingIn(declared, evolved), ...evolved] };
}

/** A noted drift for people, with the result of `isHeldBy`. */
export interface SeenDrift
  extends NotedDrift, Pick<DriftRow, 'connector' | 'entity' | 'firstSeenAt' | 'firstRun'> {
  readonly isEvolved: boolean;
}

/** One row per field and kind: the time is that of the first, the types are those of all. */
export function mergeDrift(seen: readonly SeenDrift[]): readonly DriftRow[] {
  const rows = grouped(seen, ({ entity, field, kind }) => JSON.stringify([entity, field, kind]));
  return [...rows.values()].flatMap((all) => {
    const [first] = all;
    if (first === undefined) return [];
    const { connector, entity, field, kind, firstSeenAt, firstRun } = first;
    const types = all.map(({ type }) => type);
    return [{ connector, entity, field, types, kind, firstSeenAt, firstRun, place: placeOf(all) }];
  });
}

/** A value that does not fit its column is stored beside it, whether the column was declared or added. */
function placeOf(all: readonly SeenDrift[]): DriftRow['place'] {
  if (all.every(({ isRefused }) => isRefused)) return 'quarantine';
  return all.every(({ isEvolved }) => isEvolved) ? 'column' : 'extra';
}
