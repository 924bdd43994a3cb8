/** Parts of the definition format that a manifest may need beyond what every import writes. */
export const parts = {
  noSignIn: 'a service without a sign-in',
  settings: 'settings of a connector',
  hostTable: 'a host from a table',
  login: 'a token by a login call',
  tokenParams: 'additional members of a token request',
  passwordGrant: 'a token by a password',
  keyInBody: 'a key in the body',
  formBody: 'a body that is a form',
  sizeUnsent: 'an offset without a size',
  firstPage: 'a first page other than 0 or 1',
  doneFlag: 'a flag that says that a page was the last one',
  twoWildcards: 'records in lists within lists',
  recordMaps: 'records that are the values of an object',
  columnsAtPaths: 'a column at a path',
  partOfValue: 'a part of a value of the parent',
  valueLists: 'a listing for each of a list of values',
  filters: 'filters other than one text',
  twoParents: 'two independent parents',
  firstChange: 'a first value of a change time',
  timePatterns: 'times in a format of its own',
  windows: 'windows of dates',
} as const;

export type Need = keyof typeof parts;

/** Parts that this version does not read yet: an entity that needs one is refused, and says so. */
export const missing: ReadonlySet<Need> = new Set<Need>(Object.keys(parts) as Need[]);
