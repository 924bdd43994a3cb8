import type { PublishedColumn } from '../manifest.ts';
import type { PlannedEntity } from '../target.ts';
import { givenShape, knownTables, shapeProblem } from './target-tables.ts';
import type { EntityName, GivenShape, TableColumn, TargetTables } from './target-tables.ts';

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
  readonly added: readonly Column[];
  /** All that it has in the end: also those that are no longer published, which stay null. */
  readonly columns: readonly TableColumn[];
  /** Its unique index is on hashes of the key's texts. */
  readonly hasLongKeys: boolean;
}

type Column = Pick<PublishedColumn, 'name' | 'type'>;

type Wanted = EntityName & Pick<PlannedEntity, 'key' | 'columns' | 'isNewGeneration'>;

/**
 * Compares the table with the one that is needed, and locks nothing. Throws `SyncError` TARGET_INCOMPATIBLE where a
 * table of that name is another program's, or ours was changed so that it cannot take the rows, unless a new
 * generation replaces it.
 */
export async function planTable(tables: TargetTables, wanted: Wanted): Promise<TablePlan> {
  const { isNewGeneration, key } = wanted;
  const name = tables.nameOf(wanted);
  const [known] = await knownTables(tables, wanted);
  const there = await tables.typesThere(wanted);
  const fresh = { name, dropped: [], added: [], columns: typed(wanted.columns), hasLongKeys: false };
  if (known === undefined) {
    const isThere = there !== null && !(await tables.isOwnView(name));
    if (isNewGeneration && !isThere) return { kind: 'make', ...fresh };
    throw unlistedError(tables, name, isThere, isNewGeneration);
  }
  if (isNewGeneration && (tables.isReplaced || there === null)) {
    return { kind: there === null ? 'make' : 'replace', ...fresh };
  }
  const had = givenShape(known);
  const { kept, dropped, added } = columnChange(tables, had, wanted, there);
  const [before, now] = [JSON.stringify(had.key), JSON.stringify(key)];
  const foreign = added.find((one) => there?.has(one.name) === true && !dropped.includes(one.name));
  const problem =
    there !== null && before !== now
      ? `has the key ${before} and should have ${now}`
      : ((await shapeProblem(tables, wanted, { ...had, columns: kept }, there)) ??
        // What others have in a column of theirs is not mixed with what is published.
        (foreign === undefined
          ? null
          : `has a column ${foreign.name} that was added by hand, and needs that name for a column of the source`));
  if (problem === null) {
    const kind = isNewGeneration ? 'empty' : 'keep';
    const { hasLongKeys } = had;
    return { kind, name, dropped, added, columns: [...kept, ...typed(added)], hasLongKeys };
  }
  if (isNewGeneration) return { kind: 'replace', ...fresh };
  throw tables.incompatible(`its table ${name} ${problem}`, 'Undo that, or publish with --new-generation.');
}

/**
 * Where `_published_tables` lacks a table: one that was published cannot take only what has changed, and one of another
 * program is not touched.
 */
function unlistedError(
  { incompatible, placeName }: TargetTables,
  table: string,
  isThere: boolean,
  isNewGeneration: boolean,
): Error {
  if (!isThere) {
    const found = `_published_tables does not list ${table}, which was published`;
    return incompatible(found, 'Publish with --new-generation.');
  }
  return incompatible(
    `it has a table ${table} that _published_tables does not list`,
    `Rename that table, ${isNewGeneration ? `or name another ${placeName}` : 'and publish with --new-generation'}.`,
  );
}

/** The columns alone, as `_published_tables` has them. */
function typed(columns: readonly Column[]): readonly TableColumn[] {
  return columns.map(({ name, type }) => ({ name, type }));
}

/**
 * A column with another type is another column. Types change with a generation alone: one that has another type without
 * that left with an earlier generation, and is empty. Where only names are known, a column that is there is taken.
 */
function columnChange(
  { typeOf, isReplaced }: TargetTables,
  had: GivenShape,
  { columns, key }: Wanted,
  there: ReadonlyMap<string, string> | null,
) {
  const wanted = new Map(columns.map(({ name, type }) => [name, type]));
  const known = had.columns.flatMap(({ name, type }) => {
    const needed = wanted.get(name) ?? type;
    const isSame = type === null || needed === null || typeOf(needed) === typeOf(type) || key.includes(name);
    return isSame ? [{ name, type: needed }] : [];
  });
  const before = new Set(known.map(({ name }) => name));
  const taken = isReplaced
    ? columns.filter(({ name }) => there?.has(name) === true && !before.has(name))
    : [];
  const kept = [...known, ...typed(taken)];
  const names = new Set(kept.map(({ name }) => name));
  return {
    /** With the types that they should have. */
    kept,
    dropped: had.columns.map(({ name }) => name).filter((name) => !names.has(name)),
    added: columns.filter(({ name }) => !names.has(name)),
  };
}
