import { readDrift } from '../../../app/read-statuses.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { maskGaps } from '../../../settings/mask-settings.ts';
import { firstNames } from '../../../definitions/suggest-name.ts';
import { passed, warning, type CheckResult } from './check-result.ts';

/** What masks leave open, a line for each; where there is nothing, what is masked. */
export async function checkMasks({ connectors }: LocalSettings): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const connector of connectors.values()) {
    const { name, definition, entities, masks } = connector;
    if (masks.size === 0) continue;
    // `check` says in another line why a sink cannot be read.
    const drift = (await readDrift(connector).catch(() => null)) ?? [];
    const undeclared = drift.filter(({ kind }) => kind === 'undeclared');
    const gaps = maskGaps(definition, entities, masks, undeclared);
    results.push(...gaps.map(({ entity, detail }) => warning(`mask of ${name}/${entity}`, detail)));
    if (gaps.length === 0) results.push(passed(`masks of ${name}`, firstNames([...masks.keys()])));
  }
  return results;
}
