import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type { EntityReport } from '../sinks/run-report.ts';
import type { ChosenEntities } from './chosen-entities.ts';

/**
 * The reports (parents first), with an entity as whole, and as proven, only where all that leads to it is: nothing else
 * would show what an unread parent leads to.
 */
export function wholeEntities(
  definition: Definition,
  chosen: ChosenEntities,
  reports: readonly EntityReport[],
  unproven: ReadonlySet<EntityName>,
): readonly EntityReport[] {
  const originOf = new Map(
    [...definition.entities.values()].flatMap(({ name, explodedTable }) =>
      explodedTable === null ? [] : [[explodedTable.entity, name] as const],
    ),
  );
  const whole = new Set<EntityName>();
  const proven = new Set<EntityName>();
  return reports.map((report) => {
    const origin = originOf.get(report.entity);
    const leading = chosen.get(report.entity)?.parents ?? (origin === undefined ? [] : [origin]);
    const isWhole = report.isWhole && leading.every((name) => whole.has(name));
    if (isWhole) whole.add(report.entity);
    const isProven = !unproven.has(report.entity) && leading.every((name) => proven.has(name));
    if (isProven) proven.add(report.entity);
    return { ...report, isWhole, isProven };
  });
}
