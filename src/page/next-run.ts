import { html, type SafeHtml } from '@remix-run/html-template';
import { nextSlots } from '../settings/cron.ts';
import { formatDuration } from '../settings/texts.ts';
import type { ConnectorSettings, Schedule } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { printable, roughly } from '../telemetry/format.ts';
import { disclosed, exactly } from './layout.ts';

/** A worker may be busy, or start again. */
const graceMs = 5 * 60_000;

/** When a connector runs next, before the jitter of its schedule; or since when it should have run. */
export function nextRunText(
  { schedule }: Pick<ConnectorSettings, 'schedule'>,
  overview: ConnectorOverview | null,
  nowMs: number,
): SafeHtml {
  if (schedule === null) return html`<span class="faint">by hand</span>`;
  const paused = overview?.paused ?? null;
  if (paused !== null) {
    return html`<span>paused</span> <span class="faint">${printable(paused.reason)}</span>`;
  }
  const dueMs = overview === null ? null : dueAt(schedule, overview);
  if (dueMs !== null && nowMs - dueMs > graceMs + schedule.jitterMs) {
    return html`<span class="late">${disclosed(`due ${roughly(nowMs - dueMs)} ago`, exactly(dueMs))}</span>
      <span class="faint">is a worker running?</span>`;
  }
  if (schedule.kind === 'every') return html`every ${formatDuration(schedule.everyMs)}`;
  const [nextMs] = nextSlots(schedule, nowMs, 1);
  return nextMs === undefined ? html`never` : disclosed(`in ${roughly(nextMs - nowMs)}`, exactly(nextMs));
}

/** The first time after the last run; null while one is in progress, and before the first. */
function dueAt(schedule: Schedule, { lastRun }: ConnectorOverview): number | null {
  if (lastRun === null || lastRun.finishedAt === null) return null;
  const endedMs = Date.parse(lastRun.finishedAt);
  return schedule.kind === 'every'
    ? endedMs + schedule.everyMs
    : (nextSlots(schedule, endedMs, 1)[0] ?? null);
}
