import { checkCron, checkTimezone } from './cron.ts';
import type { Note } from '../definitions/check-names.ts';
import { durationExamples, formatDuration, parseDuration } from './parse-unit.ts';
import type { Schedule } from './settings.ts';
import type { ConnectorFile } from './settings-file.ts';

const shortestEveryMs = 10_000;
const longestJitterMs = 86_400_000;

/** When a connector runs; null after a problem. */
export function buildSchedule(
  file: NonNullable<ConnectorFile['schedule']>,
  at: readonly string[],
  note: Note,
): Schedule | null {
  if ((file.cron === undefined) === (file.every === undefined)) {
    note(at, `expected either cron or every, got ${file.cron === undefined ? 'neither' : 'both'}`);
    return null;
  }
  const when = buildWhen(file, at, note);
  const jitterMs = buildJitter(file.jitter, when, [...at, 'jitter'], note);
  return when === null ? null : { ...when, jitterMs, missed: file.missed };
}

type When =
  | { readonly kind: 'cron'; readonly pattern: string; readonly timezone: string }
  | { readonly kind: 'every'; readonly everyMs: number };

function buildWhen(
  file: NonNullable<ConnectorFile['schedule']>,
  at: readonly string[],
  note: Note,
): When | null {
  if (file.cron !== undefined) return buildCron(file.cron, file.timezone ?? 'UTC', at, note);
  if (file.timezone !== undefined) {
    note([...at, 'timezone'], 'belongs to cron: an interval is the same everywhere');
  }
  const everyMs = parseDuration(file.every ?? '');
  if (everyMs === null) {
    note([...at, 'every'], `expected a duration such as ${durationExamples}`);
    return null;
  }
  if (everyMs < shortestEveryMs) {
    note([...at, 'every'], `expected at least ${shortestEveryMs / 1000}s`);
    return null;
  }
  return { kind: 'every', everyMs };
}

function buildJitter(text: string | undefined, when: When | null, at: readonly string[], note: Note): number {
  if (text === undefined) return 0;
  const ms = parseDuration(text);
  if (ms === null) {
    note(at, `expected a duration such as ${durationExamples}`);
    return 0;
  }
  const longestMs = when?.kind === 'every' ? Math.min(when.everyMs, longestJitterMs) : longestJitterMs;
  if (ms > longestMs) note(at, `expected at most ${formatDuration(longestMs)}`);
  return ms;
}

function buildCron(cron: string, timezone: string, at: readonly string[], note: Note): When | null {
  const checked = checkCron(cron);
  if (!checked.ok) note([...at, 'cron'], checked.why);
  const timezoneProblem = checkTimezone(timezone);
  if (timezoneProblem !== null) note([...at, 'timezone'], timezoneProblem);
  return checked.ok && timezoneProblem === null ? { kind: 'cron', pattern: checked.value, timezone } : null;
}
