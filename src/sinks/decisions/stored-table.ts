import { SyncError } from '../../core/errors.ts';
import { historyName, type ConnectorName, type EntityName } from '../../core/names.ts';
import type { Column, EntityTable, FieldType } from '../../core/records.ts';

/** `<connector>__<entity>` with `-` as `_`: unique, because neither name may hold two underscores in a row. */
export function tableName(connector: ConnectorName, entity: EntityName): string {
  return `${connector.replaceAll('-', '_')}__${entity}`;
}

/** The columns of a table that was declared, as the ledger has them. */
export interface TableColumns {
  readonly key: readonly string[];
  /** Columns of the newest plan, including added ones. */
  readonly declared: readonly Column[];
  /** Every column that it has had so far, in the order they were added. */
  readonly stored: readonly Column[];
  /** Added for fields that no definition declares. */
  readonly evolved: readonly Column[];
}

/** Throws `SyncError` SINK_INCOMPATIBLE for another key or a column of another type. */
export function declareTable(connector: ConnectorName, table: EntityTable, before: TableColumns | undefined) {
  if (before !== undefined) checkFits(connector, table, before);
  const stored = before?.stored ?? [];
  const texts = new Map(table.columns.flatMap((one) => (one.type === 'string' ? [[one.name, one]] : [])));
  const retyped = stored.filter(({ name, type }) => texts.has(name) && type !== 'string');
  // A column that the definition now declares is no longer an added one.
  const declaredNow = table.columns.filter(({ isEvolved }) => isEvolved !== true);
  const columns: TableColumns = {
    key: table.key,
    stored: [
      ...stored.map((column) => texts.get(column.name) ?? column),
      ...columnsMissingIn(table.columns, stored),
    ],
    declared: table.columns,
    evolved: columnsMissingIn(before?.evolved ?? [], declaredNow),
  };
  return {
    /** Columns to note. */
    columns,
    /** Columns that the table has already; empty for a new table. */
    stored,
    /** Columns declared now but not before, or texts now: values kept in `_extra` of existing rows move into them. */
    filled: columnsMissingIn(table.columns, columnsMissingIn(before?.declared ?? table.columns, retyped)),
    /** Columns as they are stored that are declared as texts now: a text holds any value. */
    retyped,
  };
}

/** Adds columns for undeclared fields, or columns with another type; they are declared from now on. */
export function withAdded(before: TableColumns, added: readonly Column[]): TableColumns {
  const grow = (columns: readonly Column[]): readonly Column[] => [
    ...columns.map((column) => added.find(({ name }) => name === column.name) ?? column),
    ...columnsMissingIn(added, columns),
  ];
  return {
    key: before.key,
    stored: grow(before.stored),
    declared: grow(before.declared),
    evolved: grow(before.evolved),
  };
}

export function columnsMissingIn(columns: readonly Column[], others: readonly Column[]): readonly Column[] {
  const names = new Set(others.map(({ name }) => name));
  return columns.filter(({ name }) => !names.has(name));
}

/** Whether columns of this type hold JSON text, so that one such type may become another. */
export function isJsonColumn(type: FieldType): boolean {
  return type === 'object' || type === 'array' || type === 'any';
}

/** Whether values of a type may be kept in a column of another one as they are. */
export function isSameInStore(held: FieldType, type: FieldType): boolean {
  return held === type || (isJsonColumn(held) && isJsonColumn(type));
}

function checkFits(connector: ConnectorName, table: EntityTable, before: TableColumns): void {
  const [key, declared] = [before.key.join(', '), table.key.join(', ')];
  if (key !== declared) {
    const found = `its rows are keyed by (${key}) and the definition now says (${declared})`;
    throw incompatible(connector, table, found);
  }
  const storedType = new Map(before.stored.map(({ name, type }) => [name, type]));
  for (const { name, type } of table.columns) {
    const held = storedType.get(name) ?? type;
    if (isSameInStore(held, type) || (type === 'string' && !table.key.includes(name))) continue;
    const found = `column "${name}" holds ${held} values and the definition now says ${type}`;
    throw incompatible(connector, table, found);
  }
}

function incompatible(connector: ConnectorName, table: EntityTable, found: string): SyncError {
  return new SyncError(
    `The stored table of ${connector}/${table.entity} does not fit its definition: ${found}. ` +
      'Use another connector name for the new shape, go back to the old definition, or drop what is stored: ' +
      `connector-sync reset ${connector}/${table.entity} --data --yes`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity: table.entity } },
  );
}

/** Stored rows cannot be compared with those of a definition with another key. */
export function otherKeyError(connector: ConnectorName, { entity, key }: EntityTable, stored: EntityTable) {
  return new SyncError(
    `The rows of ${connector}/${entity} are keyed by (${stored.key.join(', ')}) and the definition says (${key.join(', ')}): they cannot be compared. Sync first, which says what to do.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity } },
  );
}

/** Before the columns of the record, which may grow. */
export const historyColumns = [
  { name: '_version', type: 'integer' },
  { name: '_is_deleted', type: 'boolean' },
] as const satisfies readonly Column[];

/**
 * The versions of a table's rows as readers follow them: each once, with the number and the time of its beginning, and
 * never again. So its end is the beginning of the next version of its key.
 */
export function historyTable({ entity, columns, key }: EntityTable): EntityTable {
  return {
    entity: historyName(entity),
    columns: [...historyColumns, ...columns],
    key: [...key, historyColumns[0].name],
  };
}
