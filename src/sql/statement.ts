import { knownOrMade } from '../core/grouped.ts';

/**
 * Statements are written in the SQL that SQLite and PostgreSQL share, with these words where they differ:
 *
 * - `:name` is a value;
 * - `id IN {ids bigint}` and `NOT IN {ids bigint}` ask for a list of values;
 * - `{found: name text, params_hash bytea, n}` stands where a table may stand, and is one: the rows of the value
 *   `found`, whose members are named in camel case (`paramsHash`); `n` counts them from 1. Its alias is `found`;
 * - `{index name}` behind a table's name has SQLite use that index; PostgreSQL decides by itself;
 * - `{json column key}` is a member of a JSON object that is stored as text;
 * - `{next at}` is the first time behind the one in the column or expression `at`: a millisecond later.
 */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** `:name`, the n-th parameter of the statement (from 1). */
  parameter(position: number): string;
  /** Behind the column that is compared. */
  inList(position: number, type: SetType, isNot: boolean): string;
  /** `first`: the position of its first parameter; `withRows` says whether rows are counted. */
  set(alias: string, columns: readonly SetColumn[], first: number, isCounted: boolean): string;
  /** Whether a set is one parameter, or one for each of its columns. */
  readonly isSetOneParameter: boolean;
  index(name: string): string;
  json(column: string, key: string): string;
  next(at: string): string;
}

export type SetType = 'text' | 'bigint' | 'integer' | 'bytea';

export interface SetColumn {
  /** In snake case, as statements name it. */
  readonly name: string;
  readonly type: SetType;
}

/** A statement in the words of one database. */
export interface CompiledStatement {
  readonly text: string;
  readonly parameters: readonly Parameter[];
}

export type Parameter =
  | { readonly kind: 'value'; readonly name: string }
  | { readonly kind: 'list'; readonly name: string; readonly type: SetType }
  /** All columns of a set. */
  | { readonly kind: 'set'; readonly name: string; readonly columns: readonly SetColumn[] }
  /** One column of a set; `member` is its name in the rows that are given. */
  | { readonly kind: 'column'; readonly name: string; readonly member: string; readonly type: SetType };

/** Quoted texts and names, casts, words in braces, values. */
const token = /'(?:[^']|'')*'|"(?:[^"]|"")*"|::|\b(NOT )?IN \{(\w+) (\w+)\}|\{([^{}]*)\}|:([a-zA-Z]\w*)/g;
const setWord = /^(\w+): (.+)$/s;

export function compileStatement(sql: string, dialect: Dialect): CompiledStatement {
  const parameters: Parameter[] = [];
  /** Positions of values, from 1. */
  const positions = new Map<string, number>();
  const positionOf = (name: string): number =>
    knownOrMade(positions, name, () => parameters.push({ kind: 'value', name }));
  const wordOf = (word: string): string => {
    const [, alias, listed] = setWord.exec(word) ?? [];
    if (alias !== undefined && listed !== undefined) return setOf(alias, listed);
    const [kind, ...rest] = word.split(/\s+/);
    const [one, key] = rest;
    if (kind === 'index' && one !== undefined) return dialect.index(one);
    if (kind === 'next') return dialect.next(rest.join(' '));
    if (kind === 'json' && one !== undefined && key !== undefined) return dialect.json(one, key);
    throw new TypeError(`A statement has the word {${word}}, which no database knows`);
  };
  const setOf = (name: string, listed: string): string => {
    const all = listed.split(',').map((one) => one.trim().split(/\s+/));
    const columns = all.flatMap(([column, type]): SetColumn[] =>
      column === undefined || type === undefined ? [] : [{ name: column, type: typeOf(type) }],
    );
    const isCounted = all.some(([column, type]) => column === 'n' && type === undefined);
    const first = parameters.length + 1;
    if (dialect.isSetOneParameter) parameters.push({ kind: 'set', name, columns });
    else {
      for (const { name: column, type } of columns) {
        parameters.push({ kind: 'column', name, member: camelCase(column), type });
      }
    }
    return dialect.set(name, columns, first, isCounted);
  };
  const text = sql.replace(
    token,
    (
      whole: string,
      not: string | undefined,
      list: string | undefined,
      type: string | undefined,
      word: string | undefined,
      value: string | undefined,
    ) => {
      if (list !== undefined && type !== undefined) {
        const position = parameters.push({ kind: 'list', name: list, type: typeOf(type) });
        return dialect.inList(position, typeOf(type), not !== undefined);
      }
      if (word !== undefined) return wordOf(word);
      return value === undefined ? whole : dialect.parameter(positionOf(value));
    },
  );
  return { text, parameters };
}

function typeOf(type: string): SetType {
  if (type === 'text' || type === 'bigint' || type === 'integer' || type === 'bytea') return type;
  throw new TypeError(`A statement names the type "${type}"; expected text, bigint, integer or bytea`);
}

/** Statements are made of few texts; those about single tables are as many as there are tables. */
const mostKnown = 2_000;

/** Compiles each text once. */
export function statementsOf(dialect: Dialect): (sql: string) => CompiledStatement {
  return onceEach(mostKnown, (sql) => compileStatement(sql, dialect));
}

/** Makes the statement of each text once. When there are `most` of them, all are forgotten. */
export function onceEach<Made>(most: number, make: (sql: string) => Made): (sql: string) => Made {
  const known = new Map<string, Made>();
  return (sql) => {
    const found = known.get(sql);
    if (found !== undefined) return found;
    const made = make(sql);
    if (known.size >= most) known.clear();
    known.set(sql, made);
    return made;
  };
}

/** `started_at` as `startedAt`. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** A column of rows that are given by name. */
export interface RowColumn {
  /** In camel case. */
  readonly member: string;
  /** Decided by its name: flags are booleans. */
  readonly isFlag: boolean;
}

export function rowColumns(names: readonly string[]): readonly RowColumn[] {
  return names.map((name) => ({ member: camelCase(name), isFlag: /^(is|has|was|can)_/.test(name) }));
}

/** Cells in the order of the columns, by member. */
export function rowOf(
  columns: readonly RowColumn[],
  cells: readonly unknown[],
  read: (cell: unknown) => unknown = (cell) => cell,
): object {
  const row: Record<string, unknown> = {};
  for (const [index, { member, isFlag }] of columns.entries()) {
    const cell = read(cells[index]);
    row[member] = isFlag && typeof cell === 'number' ? cell !== 0 : cell;
  }
  return row;
}

/** The value of a parameter. Throws `TypeError` where there is none, or no list where one is wanted. */
export function valueOf<Value>({ kind, name }: Parameter, values: Readonly<Record<string, Value>>): Value {
  const value = values[name];
  if (value === undefined) {
    throw new TypeError(`A statement names the value :${name}, which it was not given`);
  }
  if (kind !== 'value' && !Array.isArray(value)) {
    throw new TypeError(`A statement wants a list as ${name}`);
  }
  return value;
}
