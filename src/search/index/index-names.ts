/** One row per table that has an index: what it was built for and how far it has come. */
export const stateTable = '_search_index';

/** One row for each way in which times of a field are spelled; what was met once stays. */
export const spellingTable = '_search_time_spellings';

interface IndexTables {
  /** FTS5: which rows have a word in a field. */
  readonly words: string;
  /** The distinct words that can be looked up by their spelling. */
  readonly spellings: string;
  /** FTS5: which spellings have three letters in a row. */
  readonly trigrams: string;
}

/**
 * No table of records begins so, and none of these is another's shadow table: a name of a connector or entity never holds
 * two underscores in a row, so what follows the last two tells them apart.
 */
export function indexTables(table: string): IndexTables {
  return {
    words: `_search_${table}__words`,
    spellings: `_search_${table}__spellings`,
    trigrams: `_search_${table}__trigrams`,
  };
}

export function columnIndexName(table: string, column: string): string {
  return `${columnIndexPrefix(table)}${column}`;
}

export function columnIndexPrefix(table: string): string {
  return `_search_${table}__by_`;
}
