import type { EntityName } from '../core/names.ts';
import { count, counted } from '../telemetry/format.ts';

/** More is older than the config keeps than a guard lets go at once. */
export function withheldByAgeText(one: {
  readonly entity: EntityName;
  readonly what: 'rows' | 'files' | 'versions';
  readonly count: number;
  readonly of: number;
}): string {
  const share = ((100 * one.count) / one.of).toFixed(one.count * 100 < one.of ? 1 : 0);
  const what = one.what === 'rows' ? 'deleted rows' : one.what;
  return `! ${one.entity}: ${count(one.count)} ${what} are older than the config keeps, ${share} % of all ${count(one.of)} ${one.what}: kept, that is more than the guards let go at once`;
}

/** What a person does about it. */
export function allowByAgeText(connector: string, program: string): string {
  return `  check "retention" and "history" of the config; if all of it is to go: ${program} prune ${connector} --allow-deletes`;
}

/** Of a check that has ended: what it kept is known by its number alone. */
export function withheldItemsText(entities: readonly EntityName[], items: number): string {
  const are = items === 1 ? 'is' : 'are';
  return `${counted(items, 'item')} of ${entities.join(', ')} (deleted rows, versions, files) ${are} older than the config keeps, and ${are} kept: that is more than the guards let go at once.`;
}
