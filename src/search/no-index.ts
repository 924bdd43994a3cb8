import type { SearchIndex } from './search-index.ts';

/** For tables that nothing was indexed of: every row is looked at. */
export const noIndex: SearchIndex = {
  indexedSeq: 0,
  rowsWithWord: () => null,
  rowsNearWords: () => null,
};
