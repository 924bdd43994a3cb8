import type { EntityReport, RunReport } from '../../sinks/run-report.ts';
import { count, counted } from '../../telemetry/progress-text.ts';

/** What a run found to be gone and did not mark as deleted: why, and what to do. */
export function deleteLines({ connector, entities }: RunReport, program: string): readonly string[] {
  const withheld = entities.filter((entity) => entity.withheld > 0);
  const pending = entities.filter((entity) => entity.pending > 0);
  const advice =
    `  if that is right: ${program} sync ${connector} --allow-deletes` +
    `; to look first: ${program} audit ${connector}/${withheld[0]?.entity ?? ''}`;
  return [
    ...withheld.map(withheldText),
    ...(withheld.length === 0 ? [] : [advice]),
    ...(pending.length === 0 ? [] : [pendingText(pending)]),
  ];
}

function withheldText({ entity, withheld, withheldBecause }: EntityReport): string {
  const rows = `${counted(withheld, 'row')} of ${entity} ${withheld === 1 ? 'seems' : 'seem'} to be gone and ${withheld === 1 ? 'is' : 'are'} kept`;
  return withheldBecause === 'empty'
    ? `! ${rows}: it came back empty, which another run must see too`
    : `! ${rows}: that is more than the guards of the config let pass`;
}

function pendingText(pending: readonly EntityReport[]): string {
  const parts = pending.map((entity) => `${count(entity.pending)} of ${entity.entity}`);
  return `not yet certain to be gone, so kept until a later run has asked or read again: ${parts.join(', ')}`;
}
