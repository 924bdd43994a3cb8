import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type { EntityReport } from '../sinks/run-report.ts';
import type { ChosenEntities } from './chosen-entities.ts';

/**
 * The reports (parents first) with an entity counted as whole only where everything that leads to it is: what a parent
 * that was not read to its end would have led to is missing, and nothing else would show it.
 */
export function wholeEntities(
  definition: Definition,
  chosen: ChosenEntities,
  reports: readonly EntityReport[],
): readonly EntityReport[] {
  const originOf = new Map(
    [...definition.entities.values()].flatMap(({ name, explodedTable }) =>
      explodedTable === null ? [] : [[explodedTable.entity, name] as const],
    ),
  );
  const whole = new Set<EntityName>();
  return reports.map((report) => {
    const origin = originOf.get(report.entity);
    const leading = chosen.get(report.entity)?.parents ?? (origin === undefined ? [] : [origin]);
    const isWhole = report.isWhole && leading.every((name) => whole.has(name));
    if (isWhole) whole.add(report.entity);
    return { ...report, isWhole };
  });
}
