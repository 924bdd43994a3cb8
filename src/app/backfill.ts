import { usage } from '../core/errors.ts';
import { readableEntities, selectEntities } from '../engine/chosen-entities.ts';
import {
  type BackfillPlan,
  boundedTogether,
  canBeBounded,
  planBackfill,
  type WindowLength,
  type Window,
  windowText,
} from '../engine/plan-run.ts';
import type { AskedBackfill } from '../jobs/open-queue-set.ts';
import { parseDuration } from '../settings/texts.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';

/**
 * The entities that match the globs; without a glob, all entities that a window reads only in part. Throws USAGE for a
 * glob that matches nothing, and for entities that no window bounds: each window would read all of them.
 */
export function requestedEntities(connector: ConnectorSettings, select: readonly string[]) {
  const { definition } = connector;
  const { entities, addedParents } = selectEntities(definition, connector.entities, { select, exclude: [] });
  const named = [...entities.keys()].filter((name) => !addedParents.includes(name));
  const together = boundedTogether(definition, entities);
  const bounded = named.filter((name) => canBeBounded(definition, entities, name));
  if (select.length === 0 && together.size > 0) return named.filter((name) => together.has(name));
  if (bounded.length > 0 && bounded.length === named.length) return bounded;
  const others = [...connector.entities.keys()].filter((name) =>
    canBeBounded(definition, connector.entities, name),
  );
  const unbounded = named.filter((name) => !bounded.includes(name)).join(', ');
  throw usage(
    `${unbounded} of ${connector.name} cannot be read in windows: neither they nor their parents take a start and an end. ${others.length === 0 ? 'No entity of this connector can.' : `These can: ${others.join(', ')}.`}`,
  );
}

/**
 * Throws USAGE for windows without a length, for a span without one or of too many windows, and for entities that the
 * config no longer has.
 */
export function plannedBackfill(
  connector: ConnectorSettings,
  { entities, since, until, window }: AskedBackfill,
): BackfillPlan {
  const length = parseWindowLength(window);
  if (length === null || (length.kind === 'duration' && length.ms < shortestWindowMs)) {
    const month = /^[1-9]\d?m$/.test(window) ? ` Did you mean "${window}o" (months)?` : '';
    throw usage(
      `--window: expected ${windowLengthExamples}, and at least 1h (m are minutes), got "${window}".${month}`,
    );
  }
  const selection = selectEntities(connector.definition, connector.entities, {
    select: entities,
    exclude: [],
  });
  try {
    const span = { sinceMs: Date.parse(since), untilMs: Date.parse(until), length };
    return planBackfill(readableEntities(connector.definition, selection.entities).entities, span);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw usage(`--since ${since} --until ${until}: ${error.message}.`);
  }
}

/** Texts of the windows that are complete. */
export async function finishedWindows({ name, sink }: ConnectorSettings, plan: BackfillPlan) {
  await using history = await openExistingHistory(sink);
  return new Set(await history?.finishedWindows(name, plan.id));
}

/** Examples of a length, for messages. */
export const windowLengthExamples = '1mo, 3mo, 7d or 12h';

const shortestWindowMs = 3_600_000;

const months = /^([1-9]\d{0,2})mo$/;

/**
 * `1mo` are calendar months; anything else is a duration. Null for a text that is neither, and for less than a second.
 */
export function parseWindowLength(text: string): WindowLength | null {
  const match = months.exec(text);
  if (match !== null) return { kind: 'months', months: Number(match[1]) };
  const ms = parseDuration(text);
  return ms === null ? null : { kind: 'duration', ms };
}

interface RunWindowsOptions {
  readonly plan: BackfillPlan;
  /** Texts of the windows to skip. */
  readonly done: ReadonlySet<string>;
  readonly run: (window: Window) => Promise<RunReport>;
  /** Called before each window but the first; true ends the work there. */
  readonly shouldYield: () => Promise<boolean>;
}

/**
 * Runs the windows that are not done, newest first, one run each. `last`: the result of the last window that was run;
 * null if none had to be. `isDone`: every window was read to its end. A run that was not completed ends the work: the
 * next call resumes inside that window. A run that had to leave something out (`degraded`) does not end it; the next
 * call reads its window again.
 */
export async function runWindows({ plan, done, run, shouldYield }: RunWindowsOptions) {
  let last: RunReport | null = null;
  for (const window of plan.windows) {
    if (done.has(windowText(window))) continue;
    if (last !== null && (await shouldYield())) return { last, isDone: false };
    last = await run(window);
    if (last.outcome !== 'ok' && last.outcome !== 'degraded') return { last, isDone: false };
  }
  return { last, isDone: true };
}

/** Examples of a time, for messages. */
export const instantExamples = '2025-01-31, 2025-01-31T18:00 or 2025-01-31T18:00:00+01:00';
