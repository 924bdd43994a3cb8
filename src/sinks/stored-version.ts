/** The version of a sink's tables that this program writes, and the oldest one that it brings up to date. */
export interface KnownVersions {
  readonly oldest: number;
  readonly newest: number;
}

/** Why tables of this version cannot be used, and what to do; null: they can. */
export function checkVersion(version: number, { oldest, newest }: KnownVersions) {
  if (version > newest) {
    return {
      found: `it has schema version ${version} and this version of connector-sync knows ${newest}`,
      advice: 'Use a newer connector-sync.',
    };
  }
  if (version >= oldest) return null;
  const known = oldest === newest ? `${oldest} is expected` : `${oldest} to ${newest} are expected`;
  return {
    found: `it has schema version ${version}, which is too old; ${known}. Nothing in it was changed`,
    advice:
      'Keep it, and sync into a new sink at another place: that reads everything from the service again. ' +
      'What the service no longer has, such as deleted records, stays in the old sink alone.',
  };
}
