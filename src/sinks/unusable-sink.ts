import { SyncError } from '../core/errors.ts';

/** Refuses a place whose content cannot be used as a sink. */
export function unusableSink(place: string, found: string, advice: string, cause?: unknown): SyncError {
  return new SyncError(`${place} cannot be used as a sink: ${found}. ${advice}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { place },
    cause,
  });
}

/**
 * Explains why stored tables of this version cannot be used; null if they can. Each migration makes one more version.
 */
export function unknownVersion(version: number, newest: number, first = 1): string | null {
  if (version >= first && version <= newest) return null;
  const expected = newest === first ? `version ${first}` : `a version from ${first} to ${newest}`;
  return `expected tables of ${expected}, found version ${version}, which another connector-sync wrote. Nothing in it was changed`;
}

/** Throws for a sink of a version that this program does not know. */
export function checkVersion(place: string, version: number, newest: number, first?: number): void {
  const unknown = unknownVersion(version, newest, first);
  if (unknown === null) return;
  throw unusableSink(
    place,
    unknown,
    'Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place: that reads everything ' +
      'from the service again; records that the service no longer has, such as deleted ones, stay in the old sink only.',
  );
}

/** Throws for a sink that cannot be read yet: it is migrated when it is opened for writing. */
export function checkMigrated(place: string, version: number, newest: number): void {
  if (version === newest) return;
  throw unusableSink(
    place,
    `it has tables of version ${version}, and this program reads version ${newest}`,
    'Sync into it once, or start the worker: either migrates it, and keeps everything that is stored.',
  );
}
