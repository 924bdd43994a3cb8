import { tableName } from '../../sinks/postgres/records/names.ts';
import { quoted } from '../../sql/quoted.ts';
import { binaryType } from '../../sinks/postgres/column-types.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { unlisted } from '../published-tables.ts';
import type { PublishedColumn } from '../manifest.ts';
import type { PlannedEntity } from '../target.ts';
import { givenShape, shapeProblem, tableThere } from './table-there.ts';
import type { GivenShape, KnownShape, TableColumn, TableThere } from './table-there.ts';
import { incompatible } from './target-error.ts';

/** What is done to an entity's table before rows come into it. */
export interface TablePlan {
  /**
   * `empty`: the table stays, with what others have attached to it; its rows go. `replace`: another one takes its
   * place.
   */
  readonly kind: 'make' | 'replace' | 'empty' | 'keep';
  readonly name: string;
  /** Columns that go, where it stays: what comes in their place has another type. */
  readonly dropped: readonly string[];
  /** Columns that it lacks then. */
  readonly added: readonly PublishedColumn[];
  /** All that it has in the end: also those that are no longer published, which stay null. */
  readonly columns: readonly TableColumn[];
  /** Its unique index is on hashes of the key's texts. */
  readonly hasLongKeys: boolean;
}

/**
 * Compares the table with the one that is needed, and locks nothing. Throws `SyncError` TARGET_INCOMPATIBLE where a
 * table of that name is another program's, or ours was changed so that it cannot take the rows, unless a new
 * generation replaces it.
 */
export async function planTable(
  tx: Tx,
  { at, place }: { readonly at: string; readonly place: string },
  entity: PlannedEntity,
): Promise<TablePlan> {
  const { connector, entity: name, isNewGeneration } = entity;
  const table = tableName(connector, name);
  const [known, there] = await Promise.all([
    tx.first<KnownShape>(
      `SELECT key, columns, has_long_keys FROM ${at}_published_tables WHERE connector = :connector AND entity = :name`,
      { connector, name },
    ),
    tableThere(tx, `${at}${quoted(table)}`),
  ]);
  const fresh = { name: table, dropped: [], added: [], columns: typed(entity.columns), hasLongKeys: false };
  if (known === undefined) {
    const isThere = there !== null && !(await isOwnView(tx, at, table));
    if (isNewGeneration && !isThere) return { kind: 'make', ...fresh };
    const { found, advice } = unlisted(table, isThere, isNewGeneration);
    throw incompatible(place, found, `${advice}${isNewGeneration ? ', or name another schema' : ''}.`);
  }
  const had = givenShape(known);
  const change = columnChange(had, entity);
  const problem = problemOf(had, change, entity, there);
  if (problem === null) {
    const { kept, dropped, added } = change;
    const columns = [...kept, ...typed(added)];
    const kind = isNewGeneration ? 'empty' : 'keep';
    return { kind, name: table, dropped, added, columns, hasLongKeys: had.hasLongKeys };
  }
  if (isNewGeneration) return { kind: there === null ? 'make' : 'replace', ...fresh };
  throw incompatible(place, `its table ${table} ${problem}`, 'Undo that, or publish with --new-generation.');
}

/** An entity `a` has a view of the name that the table of an entity `a_current` has. */
async function isOwnView(tx: Tx, at: string, name: string): Promise<boolean> {
  return (await tx.rows(`SELECT 1 FROM ${at}_published_tables WHERE view_name = :name`, { name })).length > 0;
}

/** The columns alone, as `_published_tables` has them. */
function typed(columns: readonly PublishedColumn[]): readonly TableColumn[] {
  return columns.map(({ name, type }) => ({ name, type }));
}

interface ColumnChange {
  /** With the types that they should have. */
  readonly kept: readonly TableColumn[];
  readonly dropped: readonly string[];
  readonly added: readonly PublishedColumn[];
}

/**
 * A column with another type is another column. Types change with a generation alone: one that has another type without
 * that left with an earlier generation, and is empty.
 */
function columnChange(had: GivenShape, { columns, key }: PlannedEntity): ColumnChange {
  const wanted = new Map(columns.map(({ name, type }) => [name, type]));
  const kept = had.columns.flatMap(({ name, type }) => {
    const needed = wanted.get(name) ?? type;
    return binaryType[needed] === binaryType[type] || key.includes(name) ? [{ name, type: needed }] : [];
  });
  const names = new Set(kept.map(({ name }) => name));
  return {
    kept,
    dropped: had.columns.map(({ name }) => name).filter((name) => !names.has(name)),
    added: columns.filter(({ name }) => !names.has(name)),
  };
}

/**
 * Why the table cannot take the rows; null where it can. What others have in a column of theirs is not mixed with what
 * is published.
 */
function problemOf(
  had: GivenShape,
  { kept, dropped, added }: ColumnChange,
  { key }: PlannedEntity,
  there: TableThere | null,
): string | null {
  const [before, now] = [JSON.stringify(had.key), JSON.stringify(key)];
  if (there !== null && before !== now) return `has the key ${before} and should have ${now}`;
  const problem = shapeProblem({ ...had, columns: kept }, there);
  const foreign = added.find(({ name }) => there?.columns.has(name) === true && !dropped.includes(name));
  if (problem !== null || foreign === undefined) return problem;
  return `has a column ${foreign.name} that was added by hand, and needs that name for a column of the source`;
}
