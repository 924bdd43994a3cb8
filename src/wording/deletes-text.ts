import { instant } from '../core/clock.ts';
import type { EntityReport, RunReport, Withholding } from '../sinks/run-report.ts';
import { count, counted, duration, toTheMinute } from '../telemetry/format.ts';

type MissingOf = Pick<EntityReport, 'entity' | 'withheld' | 'withheldBecause' | 'withholding' | 'pending'>;

/** What a run found to be deleted at the source and keeps: why, and what to do. */
export function deleteLines(report: RunReport, program: string): readonly string[] {
  const { connector, entities } = report;
  const pending = entities.filter((entity) => entity.pending > 0);
  return [
    ...withheldLines(connector, entities, program),
    ...(pending.length === 0 ? [] : [pendingText(pending)]),
    ...toConfirmLines(report, null),
  ];
}

/**
 * What later runs ask for by `get`, and when that will be done; empty where there is nothing. `everyMs`: the
 * connector's schedule; null: it has none, or is paused.
 */
export function toConfirmLines(
  { entities, confirmation, finishedAt }: Pick<RunReport, 'entities' | 'confirmation' | 'finishedAt'>,
  everyMs: number | null,
): readonly string[] {
  const waiting = entities.filter(({ toConfirm }) => toConfirm > 0);
  if (waiting.length === 0 || confirmation === undefined) return [];
  const { callsPerRun, requestsPerSecond } = confirmation;
  const rows = waiting.reduce((sum, { toConfirm }) => sum + toConfirm, 0);
  const runs = Math.ceil(rows / callsPerRun);
  const parts = waiting.map(({ entity, toConfirm }) => `${count(toConfirm)} of ${entity}`);
  const inRuns =
    runs === 1 ? 'the next run' : `the next ${count(runs)} runs, up to ${count(callsPerRun)} in each`;
  const calls = `${duration((rows / requestsPerSecond) * 1000)} of calls at ${requestsPerSecond} a second`;
  const when =
    everyMs === null
      ? ''
      : `; at its schedule by about ${toTheMinute(instant(Date.parse(finishedAt) + runs * everyMs))}`;
  return [`still to be asked for by get: ${parts.join(', ')}, in ${inRuns} (${calls})${when}`];
}

/** Of the entities of which deletes are withheld; empty where there are none. */
export function withheldLines(
  connector: string,
  entities: readonly MissingOf[],
  program: string,
): readonly string[] {
  const withheld = entities.filter((entity) => entity.withheld > 0);
  const [first] = withheld;
  if (first === undefined) return [];
  return [
    ...withheld.map(withheldText),
    `  check at the source; if they are deleted there: ${program} sync ${connector} --allow-deletes` +
      `; to look at single records: ${program} audit ${connector}/${first.entity}`,
  ];
}

function withheldText({ entity, withheld, withheldBecause, withholding }: MissingOf): string {
  const kept = withholding?.along.some(({ rows }) => rows > 0) === true ? 'all kept' : 'kept';
  const along = withholding === null ? '' : alongText(withholding);
  const look = withheld === 1 ? 'looks deleted' : 'look deleted';
  const limit = withholding === null ? '' : ` (limit: ${limitText(withholding)})`;
  switch (withheldBecause) {
    case 'empty':
      return `! ${entity}: the listing came back empty; ${counted(withheld, 'stored row')} ${look}${along}; ${kept} until a second complete read agrees${limit}`;
    case 'replaced':
      return `! ${entity}: none of the ${counted(withheld, 'stored row')} came back, only other records${along}; ${kept}. Is it still the same account?`;
    case 'adopted':
      return `! ${entity}: ${count(withheld)} ${look}${along}; ${kept}: the connector was adopted from another address, and no "sync --full" has agreed with it yet`;
    case 'along':
      return `! ${entity}: ${count(withheld)} ${look}${along}; ${kept}${limit}`;
    case 'share':
    case null: {
      if (withholding === null) return `! ${entity}: ${count(withheld)} ${look}; ${kept}`;
      const { dayAgo, deletedInDay, below } = withholding;
      // Most of them came within the day.
      const isMore = withheld > dayAgo;
      const more = [
        ...(isMore ? [` (${counted(dayAgo, 'row was', 'rows were')} stored a day ago)`] : []),
        ...(below === 0 ? [] : [`, ${count(below)} more would go with the records above them`]),
        ...(deletedInDay === 0 ? [] : [`, ${count(deletedInDay)} more were deleted in the last 24 hours`]),
      ];
      const of = isMore ? '' : ` of ${count(dayAgo)}`;
      return `! ${entity}: ${count(withheld)}${of} ${look}${more.join('')}${along}; ${kept}: ${sumText(withheld, withholding)}`;
    }
  }
}

/** `400 in 24 hours (65.6 %) are over the limit of ...`: the sum that was held against it. */
function sumText(withheld: number, withholding: Withholding): string {
  const { dayAgo, deletedInDay, below } = withholding;
  const sum = withheld + below + deletedInDay;
  const share = sum > dayAgo ? '' : ` (${percent(sum / dayAgo)})`;
  return `${count(sum)} in 24 hours${share} ${sum === 1 ? 'is' : 'are'} over the limit (${limitText(withholding)})`;
}

const namedEntities = 3;

/** The largest first; more than a few are summed up. */
function alongText({ along }: Withholding): string {
  const sorted = along.filter(({ rows }) => rows > 0).sort((one, other) => other.rows - one.rows);
  if (sorted.length === 0) return '';
  const named = sorted.slice(0, namedEntities).map(({ entity, rows }) => `${count(rows)} ${entity}`);
  const rest = sorted.slice(namedEntities).reduce((sum, { rows }) => sum + rows, 0);
  const parts = rest === 0 ? named : [...named, counted(rest, 'other row')];
  return ` and would take ${parts.join(', ')} along`;
}

function limitText({ maxDeleteShare, minDeleteRows }: Withholding): string {
  return `more than ${percent(maxDeleteShare)} and more than ${counted(minDeleteRows, 'row')} in 24 hours`;
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}

function pendingText(pending: readonly EntityReport[]): string {
  const parts = pending.map((entity) => `${count(entity.pending)} of ${entity.entity}`);
  return `may be deleted, kept until that is confirmed: ${parts.join(', ')}`;
}
