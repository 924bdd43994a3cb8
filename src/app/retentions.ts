import { instant, type Clock, type Instant } from '../core/clock.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { Retention } from '../sinks/purges.ts';

/** Of each entity that has something to be removed by age, and of what it is exploded into. */
export function retentionsOf(
  { entities, definition }: ConnectorSettings,
  clock: Clock,
): readonly Retention[] {
  const before = (ms: number | null | undefined): Instant | null =>
    ms === undefined || ms === null ? null : instant(clock.now() - ms);
  return [...entities].flatMap(([entity, { retention, history }]) => {
    const keepMs = history?.keepMs ?? null;
    if (retention === undefined && keepMs === null) return [];
    const exploded = definition.entities.get(entity)?.explodedTable?.entity;
    return [entity, ...(exploded === undefined ? [] : [exploded])].map((one) => ({
      entity: one,
      deletedBefore: before(retention?.deletedRowsMs),
      quarantinedBefore: before(retention?.quarantineMs),
      filesBefore: before(retention?.downloadsMs),
      versionsBefore: before(keepMs),
      publishedThrough: Number.MAX_SAFE_INTEGER,
      withheld: 0,
    }));
  });
}
