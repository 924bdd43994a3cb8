import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { readText, writeText } from './text.ts';

export type Value =
  string | number | bigint | boolean | null | Buffer | readonly (string | number | Buffer | null)[];
/** For `:name` in a statement. Texts are escaped on the way in and back on the way out: PostgreSQL stores no U+0000. */
export type Values = Readonly<Record<string, Value>>;

/** One transaction on one connection. Statements run one after the other, in the order in which they were given. */
export interface Tx {
  /** Rows by column name, `started_at` as `startedAt`. bigint columns are numbers as far as those are exact. */
  rows<Row extends object>(sql: string, values?: Values): Promise<readonly Row[]>;
  first<Row extends object>(sql: string, values?: Values): Promise<Row | undefined>;
  /** Rows in the order of their columns. */
  arrays(sql: string, values?: Values): Promise<readonly (readonly unknown[])[]>;
  /** How many rows the statement wrote. */
  run(sql: string, values?: Values): Promise<number>;
  /** `COPY ... FROM STDIN (FORMAT binary)`. */
  copyIn(sql: string, chunks: Iterable<Buffer>): Promise<void>;
}

/** `heard` is called with each answer. */
export function txOn(client: pg.ClientBase, heard?: () => void): Tx {
  const ask = async (
    sql: string,
    values: Values,
    asArrays: boolean,
  ): Promise<pg.QueryArrayResult | pg.QueryResult> => {
    const { text, bound } = bindNames(sql, values);
    const answer = asArrays
      ? await client.query({ text, values: bound, types: parsers, rowMode: 'array' })
      : await client.query({ text, values: bound, types: parsers });
    heard?.();
    return answer;
  };
  const rows = async <Row extends object>(sql: string, values: Values = {}): Promise<readonly Row[]> => {
    const result = await ask(sql, values, true);
    const names = result.fields.map(({ name }) => camelCase(name));
    return (result.rows as unknown[][]).map(
      (cells) => Object.fromEntries(cells.map((cell, index) => [names[index] ?? '', cell])) as Row,
    );
  };
  return {
    rows,
    first: async <Row extends object>(sql: string, values: Values = {}) => (await rows<Row>(sql, values))[0],
    arrays: async (sql, values = {}) => (await ask(sql, values, true)).rows as unknown[][],
    run: async (sql, values = {}) => (await ask(sql, values, false)).rowCount ?? 0,
    copyIn: async (sql, chunks) => await pipeline(Readable.from(chunks), client.query(copyFrom(sql))),
  };
}

/** `::type` is a cast, not a name. */
const nameOrText = /'(?:[^']|'')*'|"(?:[^"]|"")*"|::|:([a-zA-Z]\w*)/g;
const positions = new Map<string, { readonly text: string; readonly names: readonly string[] }>();
/** Statements are made of few texts; those about single entities' tables are as many as there are tables. */
const mostKnown = 2_000;

function bindNames(sql: string, values: Values): { readonly text: string; readonly bound: unknown[] } {
  let known = positions.get(sql);
  if (known === undefined) {
    const names: string[] = [];
    const text = sql.replace(nameOrText, (token, name: string | undefined) => {
      if (name === undefined) return token;
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}`;
    });
    known = { text, names };
    if (positions.size >= mostKnown) positions.clear();
    positions.set(sql, known);
  }
  return { text: known.text, bound: known.names.map((name) => bindValue(values[name])) };
}

function bindValue(value: Value | undefined): unknown {
  if (value === undefined) throw new TypeError('A statement names a value that it was not given');
  if (typeof value === 'string') return writeText(value);
  if (Array.isArray(value)) {
    return value.map((one: unknown) => (typeof one === 'string' ? writeText(one) : one));
  }
  return value;
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

const { builtins } = pg.types;
const ownParsers: Readonly<Record<number, (text: string) => unknown>> = {
  [builtins.INT8]: readInteger,
  [builtins.TEXT]: readText,
  [builtins.VARCHAR]: readText,
  [builtins.JSON]: (text) => text,
  [builtins.TIMESTAMPTZ]: (text) => new Date(text).toISOString(),
};

/** Answers come as text; `json` stays text, and times are instants. */
const parsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    ownParsers[oid] ??
    pg.types.getTypeParser(oid, format ?? 'text')) as pg.CustomTypesConfig['getTypeParser'],
};

function readInteger(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}
