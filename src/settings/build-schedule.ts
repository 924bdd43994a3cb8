import { checkCron, checkTimezone } from './check-cron.ts';
import type { Note } from '../definitions/check-names.ts';
import { durationExamples, parseDuration } from './parse-duration.ts';
import type { Schedule } from './settings.ts';
import type { ConnectorFile } from './settings-file.ts';

const shortestEveryMs = 10_000;

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
  if (file.cron !== undefined) {
    return buildCron(file.cron, file.timezone ?? 'UTC', at, note);
  }
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

function buildCron(cron: string, timezone: string, at: readonly string[], note: Note): Schedule | null {
  const cronProblem = checkCron(cron);
  if (cronProblem !== null) {
    note([...at, 'cron'], cronProblem);
  }
  const timezoneProblem = checkTimezone(timezone);
  if (timezoneProblem !== null) {
    note([...at, 'timezone'], timezoneProblem);
  }
  return cronProblem === null && timezoneProblem === null
    ? { kind: 'cron', pattern: cron.trim(), timezone }
    : null;
}
