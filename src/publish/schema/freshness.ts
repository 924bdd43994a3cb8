import type { EntityName } from '../../core/names.ts';
import { nextSlots } from '../../settings/cron.ts';
import type { ConnectorSettings, Schedule } from '../../settings/settings.ts';

const dayMs = 86_400_000;
/** Any time does, as long as the same config always gives the same text. */
const fixedMs = Date.UTC(2024, 0, 1);

/** `freshWithin`, or else twice the longest time between two runs, at least a day; null where nothing is scheduled. */
export function freshnessOf(connector: ConnectorSettings, entity: EntityName): number | null {
  const within = connector.entities.get(entity)?.freshWithinMs ?? connector.freshWithinMs;
  if (within !== null) return within;
  return connector.schedule === null ? null : Math.max(dayMs, 2 * longestGapMs(connector.schedule));
}

function longestGapMs(schedule: Schedule): number {
  if (schedule.kind === 'every') return schedule.everyMs;
  const slots = nextSlots(schedule, fixedMs, 50);
  return Math.max(0, ...slots.slice(1).map((slot, index) => slot - (slots[index] ?? slot)));
}
