/** Public clients keep an application token for 14 minutes, whatever `expires_in` says: less would cut them off midway. */
export const shortestTokenSeconds = 900;
export const defaultTokenSeconds = 900;
/** The API tells nobody how long a scoped token lives: 20 minutes is what its clients expect. */
export const defaultScopedTokenSeconds = 1_200;
export const defaultMaxTokens = 1_000;
