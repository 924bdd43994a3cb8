/**
 * Why stored tables of this version cannot be used; null if they can. Each migration makes one more version.
 */
export function unknownVersion(version: number, newest: number, first = 1): string | null {
  if (version >= first && version <= newest) return null;
  const expected = newest === first ? `version ${first}` : `a version from ${first} to ${newest}`;
  return `expected tables of ${expected}, found version ${version}, which another connector-sync wrote. Nothing in it was changed`;
}

/** Advice on a sink of an unknown version. */
export const unknownVersionAdvice =
  'Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place: that reads everything ' +
  'from the service again; records that the service no longer has, such as deleted ones, stay in the old sink only.';

/** Why a sink of this version cannot be read yet; null if it can. A sink is migrated when it is opened for writing. */
export function unmigratedVersion(version: number, newest: number): string | null {
  return version === newest
    ? null
    : `it has tables of version ${version}, and this program reads version ${newest}`;
}

export const unmigratedAdvice =
  'Sync into it once, or start the worker: either migrates it, and keeps everything that is stored.';
