import type { ConnectorSettings } from '../settings/settings.ts';
import type { StoredMask } from '../sinks/masks.ts';
import { count, counted, toTheMinute } from '../telemetry/format.ts';

/** Where values may be stored as they were before the masks of the config; a line for each entity. */
export function maskLines(
  { name, masks }: Pick<ConnectorSettings, 'name' | 'masks'>,
  stored: readonly StoredMask[],
): readonly string[] {
  return [...masks].flatMap(([entity, { mask }]) => {
    const known = stored.find((one) => one.entity === entity);
    // Without the key it is not known whether the mask is another one.
    if (mask.fingerprint === '') return [];
    if (known?.mask !== mask.fingerprint) {
      return [
        `mask of ${entity}: not in use yet, all that is stored is as before, as are publications and backups; the next sync reads in full`,
      ];
    }
    const { since, readAt, deleted, quarantined } = known;
    if (since === null) return [];
    const beside = [
      ...(quarantined === 0 ? [] : [counted(quarantined, 'quarantined record')]),
      'JSONL lines, versions of rows, publications and backups made before',
    ];
    if (readAt === null) {
      const when = `since ${toTheMinute(since)}`;
      return [
        `mask of ${entity}: in use ${when}; rows that no read has reached since are as before, and so are ${beside.join(', ')}. ${rewrite(name)}`,
      ];
    }
    const places = [
      ...(deleted === 0 ? [] : [`deleted rows (of ${count(deleted)} those deleted before)`]),
      ...beside,
    ];
    return [
      `mask of ${entity}: all rows have it since ${toTheMinute(readAt)}; as before may be ${places.join(', ')}. ${rewrite(name)}`,
    ];
  });
}

function rewrite(connector: string): string {
  return `To mask them: connector-sync purge ${connector} --unmasked`;
}
