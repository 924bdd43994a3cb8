import { html, type SafeHtml } from '@remix-run/html-template';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { expectedText } from '../telemetry/expected-records.ts';
import { count, roughly } from '../telemetry/format.ts';
import { pacedText } from '../telemetry/progress-text.ts';
import { exactly, wideTable } from './layout.ts';
import type { ConnectorData } from './read-connector-page.ts';

type Running = NonNullable<ConnectorData['running']>;

const columns = [
  { title: 'entity' },
  { title: 'read', align: 'right' },
  { title: 'of', align: 'right' },
  { title: 'written', align: 'right' },
  { title: 'stored before', align: 'right' },
  { title: 'waiting' },
] as const;

/** What a run in progress has stored so far. `perSecond`: records since the page was last asked for; null: unknown. */
export function progressSection(
  running: Running,
  perSecond: number | null,
  { stored }: Pick<ConnectorData, 'stored'>,
): SafeHtml {
  const { run, counts, progress, isLost } = running;
  const shown = new Map((progress?.entities ?? []).map((one) => [one.entity, one]));
  const before = new Map((stored?.status?.entities ?? []).map(({ entity, rows }) => [entity, rows]));
  const rows = counts.map(({ entity, fetched, duplicate, inserted, updated }) => {
    const { expected = null, earlierRows = 0, pacedMs = 0 } = shown.get(entity) ?? {};
    const read = earlierRows + fetched - duplicate;
    return [
      entity,
      count(read),
      expectedText(expected, read) ?? '',
      count(inserted + updated),
      count(Math.max(0, (before.get(entity) ?? 0) - inserted)),
      pacedText({ pacedMs }).join(),
    ];
  });
  return html`<section class="notice" aria-label="Run in progress">
    <h2>${isLost ? 'Its process has ended' : 'Running'}</h2>
    <p>
      <a href="../runs/${run.run}">Run</a> since
      ${exactly(run.startedAt)}${isLost ? '; the next run resumes from what it stored' : rateText(perSecond) + leftText(running, perSecond)}.
    </p>
    ${rows.length === 0 ? '' : wideTable('Run in progress', columns, rows)}
  </section>`;
}

function rateText(perSecond: number | null): string {
  return perSecond === null ? '' : `, ${count(Math.round(perSecond))} records a second`;
}

/** As its process says, which knows what is still to come; not while nothing is stored. */
function leftText({ progress }: Running, perSecond: number | null): string {
  const left = progress?.left ?? null;
  if (left === null || perSecond === 0) return '';
  return `, ${left.isAtLeast ? 'at least' : 'about'} ${roughly(left.ms)} left`;
}

/** Records a second between two looks at a run, by the clock of this process alone. */
export function openRates(monotonicMs: () => number = () => performance.now()) {
  const seen = new Map<
    string,
    { readonly fetched: number; readonly atMs: number; readonly rate: number | null }
  >();
  return (run: Pick<RunSummary, 'run'>, fetched: number): number | null => {
    const atMs = monotonicMs();
    const last = seen.get(run.run);
    if (last !== undefined && atMs - last.atMs < leastMs) return last.rate;
    const rate = last === undefined ? null : ((fetched - last.fetched) * 1000) / (atMs - last.atMs);
    seen.delete(run.run);
    seen.set(run.run, { fetched, atMs, rate });
    for (const oldest of seen.keys()) {
      if (seen.size <= mostRuns) break;
      seen.delete(oldest);
    }
    return rate;
  };
}

/** Two readers of a page do not spoil each other's rate. */
const leastMs = 1_000;
const mostRuns = 100;
