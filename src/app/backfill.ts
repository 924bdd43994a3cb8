import * as z from 'zod';
import { instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { isDeclaredName, type EntityName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import {
  boundedTogether,
  canBeBounded,
  planBackfill,
  type BackfillPlan,
  type BackfillSpan,
  type WindowLength,
  windowText,
  type Window,
} from '../engine/plan-run.ts';
import { selectEntities } from '../engine/chosen-entities.ts';
import { formatDuration, parseDuration } from '../settings/texts.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';

/** What a backfill reads: names and times, so that a queue may hold it in clear text. */
export interface BackfillRequest {
  readonly entities: readonly EntityName[];
  readonly span: BackfillSpan;
}

/**
 * The entities that match the globs; without a glob all of which a window reads only a part. Throws USAGE for a glob
 * that matches nothing, and for entities that no window bounds: each window would read all of them.
 */
export function requestedEntities(
  connector: ConnectorSettings,
  select: readonly string[],
): readonly EntityName[] {
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

/** Throws USAGE for a span without length or of too many windows, and for entities that the config no longer has. */
export function plannedBackfill(
  connector: ConnectorSettings,
  { entities, span }: BackfillRequest,
): BackfillPlan {
  const selection = selectEntities(connector.definition, connector.entities, {
    select: entities,
    exclude: [],
  });
  try {
    return planBackfill(selection.entities, span);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw usage(`--since ${instant(span.sinceMs)} --until ${instant(span.untilMs)}: ${error.message}.`);
  }
}

/** Texts of the windows that are complete. */
export async function finishedWindows(
  { name, sink }: ConnectorSettings,
  plan: BackfillPlan,
): Promise<ReadonlySet<string>> {
  await using history = await openExistingHistory(sink);
  return new Set(await history?.finishedWindows(name, plan.id));
}

/** For a queue. */
export function writeRequest({ entities, span }: BackfillRequest): string {
  const { sinceMs, untilMs, length } = span;
  return JSON.stringify({
    entities,
    since: instant(sinceMs),
    until: instant(untilMs),
    window: formatWindowLength(length),
  });
}

/** Throws `SyncError` INTERNAL for a text that `writeRequest` did not write. */
export function readRequest(text: string): BackfillRequest {
  const request = stored.safeParse(parsedJson(text));
  const length = request.success ? parseWindowLength(request.data.window) : null;
  if (!request.success || length === null) {
    throw new SyncError(
      'A backfill should say entities, since, until and window; something else was found. Remove the job.',
      {
        code: 'INTERNAL',
        recovery: 'stop',
      },
    );
  }
  const { entities, since, until } = request.data;
  return { entities, span: { sinceMs: Date.parse(since), untilMs: Date.parse(until), length } };
}

const stored = z.strictObject({
  entities: z.array(z.custom<EntityName>((name) => typeof name === 'string' && isDeclaredName(name))).min(1),
  since: z.iso.datetime(),
  until: z.iso.datetime(),
  window: z.string(),
});

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // The shape's check says what was expected.
  }
}

/** How a length is written, for messages. */
export const windowLengthExamples = '1mo, 3mo, 7d or 12h';

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

/** The shortest way to write it; two texts for one length become one. */
export function formatWindowLength(length: WindowLength): string {
  return length.kind === 'months' ? `${length.months}mo` : formatDuration(length.ms);
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
 * Runs the windows that are not done, newest first, one run each. `last`: of the last window that was run; null where
 * none had to be. `isDone`: every window was read to its end. A run that was not completed ends the work: the next call
 * resumes inside that window. One that had to leave something out (`degraded`) does not; its window is read again by
 * the next call.
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

/** How a time is written, for messages. */
export const instantExamples = '2025-01-31, 2025-01-31T18:00 or 2025-01-31T18:00:00+01:00';
