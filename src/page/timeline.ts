import { html, type SafeHtml } from '@remix-run/html-template';
import { recordsRead, rowsWritten } from '../app/run-totals.ts';
import type { Instant } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import type { NotedAction } from '../sinks/actions.ts';
import type { DriftRow } from '../sinks/drift.ts';
import type { RunSummary, ScopeChange } from '../sinks/ledger-reader.ts';
import { count, duration, printable } from '../telemetry/format.ts';
import { actionDetail } from '../wording/action-text.ts';
import { ago, badge, wideTable } from './layout.ts';
import type { ConnectorData } from './read-connector-page.ts';
import { tookMs } from './run-bars.ts';

interface Entry {
  readonly at: Instant;
  readonly cells: readonly (SafeHtml | string)[];
}

const columns = [
  { title: 'when' },
  { title: 'what' },
  { title: 'who' },
  ...(['took', 'read', 'written', 'deleted'] as const).map((title) => ({ title, align: 'right' }) as const),
  { title: 'details' },
];

export const leastShown = 50;
export const mostShown = 1000;

/** What happened to a connector, newest first: its runs, what people did, and what changed in settings and schema. */
export function timeline({ past, shown }: Pick<ConnectorData, 'past' | 'shown'>, nowMs: number): SafeHtml {
  const { runs, actions, scopeChanges, drift } = past;
  const all = [
    ...runs.map(runEntry),
    ...actions.map(actionEntry),
    ...scopeChanges.map(scopeEntry),
    ...driftEntries(drift),
  ].sort((left, right) => (left.at < right.at ? 1 : left.at > right.at ? -1 : 0));
  const isMore = all.length > shown || [runs, actions, scopeChanges].some((list) => list.length === shown);
  const rows = all.slice(0, shown).map(({ at, cells }) => [ago(at, nowMs), ...cells]);
  return html`${wideTable('Timeline', columns, rows)}
  ${
    isMore && shown < mostShown
      ? html`<p><a href="?shown=${Math.min(mostShown, shown * 4)}#timeline">Show older</a></p>`
      : ''
  }`;
}

function entry(at: Instant, what: SafeHtml | string, who: string, details: SafeHtml | string): Entry {
  return { at, cells: [what, who, '', '', '', '', details] };
}

function runEntry(run: RunSummary): Entry {
  const { report, kind, startedAt } = run;
  const ms = tookMs(run);
  const deleted = report?.entities.reduce((sum, one) => sum + one.deleted, 0) ?? 0;
  return {
    at: startedAt,
    cells: [
      html`<a href="../runs/${run.run}">${badge(run.state)}</a> ${kind === 'sync' ? '' : kind}`,
      '',
      ms === null ? '' : duration(ms),
      report === null ? '' : count(recordsRead(report)),
      report === null ? '' : count(rowsWritten(report)),
      deleted === 0 ? '' : count(deleted),
      report?.error?.code ?? report?.failures[0]?.code ?? '',
    ],
  };
}

function actionEntry(action: NotedAction): Entry {
  const { at, who, entity, run } = action;
  const said = [entity ?? '', actionDetail(action)].filter((text) => text !== '').join(', ');
  const details = html`${printable(said)} ${run === null ? '' : html`<a href="../runs/${run}">run</a>`}`;
  return entry(at, action.action, printable(who), details);
}

function scopeEntry({ at, isOtherDefinition, added, removed }: ScopeChange): Entry {
  const said = [
    ...(isOtherDefinition ? ['uses another version of the definition'] : []),
    ...(added.length === 0 ? [] : [`also reads ${added.join(', ')}`]),
    ...(removed.length === 0 ? [] : [`does not read ${removed.join(', ')}`]),
  ];
  const what = said.length === 0 ? 'reads with other variants, parents or filters' : said.join('; ');
  return entry(at, 'settings', '', `unlike the sync before, this one ${what}`);
}

/** Fields that came for the first time in one run. */
function driftEntries(drift: readonly DriftRow[]): readonly Entry[] {
  const met = grouped(drift, ({ entity, kind, firstRun }) => `${entity} ${kind} ${firstRun}`);
  return [...met.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const fields = [first, ...others].map(({ field }) => (field === '*' ? 'further ones' : field));
    const what = first.kind === 'undeclared' ? 'undeclared fields' : 'values that do not fit';
    return [entry(first.firstSeenAt, 'schema', '', printable(`${first.entity}: ${what}: ${named(fields)}`))];
  });
}

const mostNamed = 10;

function named(fields: readonly string[]): string {
  const more = fields.length - mostNamed;
  return `${fields.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
}
