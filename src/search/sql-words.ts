import { globOf, likeOf, type LikePattern } from './like-pattern.ts';
import { piece, type Piece } from './sql-piece.ts';

/** A column whose values a database itself compares. */
export interface ComparedColumn {
  readonly kind: 'string' | 'number' | 'boolean';
  /** Of numbers: it has integers alone. */
  readonly isInteger: boolean;
}

/** How a database says what conditions of a search are made of. */
export interface SqlWords {
  /** Where a value stands that the column is compared with. */
  readonly value: (column: ComparedColumn) => string;
  /** The text has the part that is bound to `?`. */
  readonly has: (text: string) => string;
  /** The text fits the pattern, `given` as it was asked for. `fallBack` checks the value itself. */
  readonly fits: (sql: string, pattern: LikePattern, given: string, fallBack: () => string) => Piece;
  /** JSON of a column, as the text that it was stored as. */
  readonly json: (sql: string) => string;
}

export const sqliteWords: SqlWords = {
  value: () => '?',
  has: (text) => `instr(${text}, ?) > 0`,
  // GLOB ends at a NUL, in the pattern as in the text.
  fits: (sql, pattern, given, fallBack) =>
    given.includes('\0')
      ? piece(fallBack())
      : piece(`iif(instr(${sql}, char(0)), ${fallBack()}, ${sql} GLOB ?)`, globOf(pattern)),
  json: (sql) => sql,
};

/** Every value says its type: the server would take `1.5` beside a column of integers for a mistake. */
export const postgresWords: SqlWords = {
  value: ({ kind, isInteger }) => {
    const type = { string: 'text', number: isInteger ? 'numeric' : 'float8', boolean: 'boolean' }[kind];
    return `CAST(? AS ${type})`;
  },
  has: (text) => `strpos(${text}, CAST(? AS text)) > 0`,
  fits: (sql, pattern) => piece(`${sql} LIKE CAST(? AS text)`, likeOf(pattern)),
  json: (sql) => `CAST(${sql} AS text)`,
};
