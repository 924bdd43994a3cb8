/** Public clients keep an application token for 14 minutes, whatever `expires_in` says: less would cut them off midway. */
export const shortestTokenSeconds = 900;
export const defaultTokenSeconds = 900;
/** The API does not tell how long a scoped token lives; its clients expect 20 minutes. */
export const defaultScopedTokenSeconds = 1_200;
export const defaultMaxTokens = 1_000;
