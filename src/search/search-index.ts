/**
 * What narrows `keyword` and `fuzzy`: a superset of the rows that meet them, from FTS5 tables that stand beside the
 * records' table in the same file and follow its change numbers. Without an index every row is looked at, and finds the same.
 * It also knows how times are spelled, which decides whether SQLite may sort a column of texts.
 */
export interface SearchIndex {
  /** Rows whose `_seq` is at or below this are in the index as they are; 0: there is no index. */
  readonly indexedSeq: number;
  /** Rows with one of the words somewhere in the field. Null: the index cannot tell, or a good part of all rows has one. */
  rowsWithWord(field: string, words: readonly string[]): SqlPart | null;
  /** Rows that may have all of the words, each with its slips, in the field. Null: too many to be worth it. */
  rowsNearWords(field: string, words: readonly string[]): SqlPart | null;
  /** Whether the texts of the field's column, newest rows included, stand in the order of their instants. False: that is not known. */
  isInOrderAsStored(field: string): boolean;
}

/** A piece of a statement with the values for its `?`, in their order. */
export interface SqlPart {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}
