/** What a search may ask: enough for any sensible one, and little enough that none is a burden. */
export const searchLimits = {
  /** Conditions inside conditions. */
  depth: 8,
  /** Conditions in all. */
  nodes: 64,
  /** Values of one `in`. */
  inValues: 500,
  /** Characters of a `like` pattern, and of what `contains`, `keyword` and `fuzzy` look for. */
  patternChars: 256,
  /** Words of one `keyword` or `fuzzy`. */
  words: 32,
  sortFields: 8,
  fields: 64,
  pathParts: 8,
  limit: 1_000,
  defaultLimit: 1_000,
  cursorBytes: 8 * 1024,
  /** Of the query as JSON text. */
  queryBytes: 64 * 1024,
} as const;
