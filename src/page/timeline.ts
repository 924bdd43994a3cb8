import { html, type SafeHtml } from '@remix-run/html-template';
import { actionVerbs } from '../app/find-run.ts';
import { recordsRead, rowsWritten } from '../app/run-totals.ts';
import type { readConnectorHistory } from '../app/watch-sinks.ts';
import type { Instant } from '../core/clock.ts';
import { grouped } from '../core/grouped.ts';
import type { RunId } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { DriftRow } from '../sinks/readings.ts';
import type { RunSummary, ScopeChange } from '../sinks/ledger-reader.ts';
import type { ActionName, NotedAction } from '../sinks/requests.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import { tookMs } from './bars.ts';
import { chips, dayTitle, joined, list, minute, runState, searchOf, state } from './layout.ts';

/** Kinds of events that the address may choose, and their names on the page. */
export const timelineKinds = ['runs', 'people', 'settings', 'fields'] as const;
type Kind = (typeof timelineKinds)[number];

export const leastShown = 50;
export const mostShown = 1000;

interface Timeline {
  /** Name of the connector, which is also the address of its page. */
  readonly name: string;
  readonly past: Pick<
    Awaited<ReturnType<typeof readConnectorHistory>>,
    'runs' | 'actions' | 'drift' | 'scopeChanges'
  >;
  /** Null: all kinds. */
  readonly show: Kind | null;
  /** Length at most, of each list of `past` too. */
  readonly shown: number;
}

/**
 * Events of a connector by day, newest first: its runs, acts of people, changes of what it reads, and new fields. Runs
 * in a row that ended well are folded.
 */
export function timeline(of: Timeline, nowMs: number): SafeHtml {
  const { name, past, show, shown } = of;
  const all = entriesOf(of).toSorted((left, right) => (left.at < right.at ? 1 : left.at > right.at ? -1 : 0));
  const isMore =
    all.length > shown || [past.runs, past.actions, past.scopeChanges].some(({ length }) => length === shown);
  const days = [...grouped(all.slice(0, shown), ({ at }) => at.slice(0, 10))].map(
    ([day, entries]) =>
      html`<div>
        <h3>${dayTitle(day, nowMs)}</h3>
        ${list(foldedEntries(entries), 'line')}
      </div>`,
  );
  const link = (kind: Kind | null, more = ''): string =>
    `${name}${searchOf({ show: kind, shown: more })}#timeline`;
  const kinds = [null, ...timelineKinds].map(
    (kind) => [link(kind), titled(kind ?? 'all'), kind === show] as const,
  );
  const nothing = show === null ? 'Nothing has happened yet.' : 'Nothing of this kind.';
  const older = link(show, String(Math.min(mostShown, shown * 4)));
  return html`<section aria-label="Timeline">
    <div class="toolbar" id="timeline">
      <h2>Timeline</h2>
      ${chips('Kind of event', kinds)}
    </div>
    ${days.length === 0 ? html`<p class="soft">${nothing}</p>` : html`<div class="panel">${days}</div>`}
    ${isMore && shown < mostShown ? html`<p class="after"><a href="${older}">Show older</a></p>` : ''}
  </section>`;
}

interface Entry {
  readonly at: Instant;
  readonly state: SafeHtml;
  readonly text: SafeHtml;
  readonly took?: string;
  /** An ordinary run, which may be folded. */
  readonly isPlain?: boolean;
}

function entriesOf({ past, show }: Timeline): readonly Entry[] {
  const { runs, actions, drift, scopeChanges } = past;
  const has = (kind: Kind): boolean => show === null || show === kind;
  const listed = new Set(has('runs') ? runs.map(({ run }) => run) : []);
  // The line of a run names who asked for it.
  const starts = new Map<RunId | null, string>(
    actions.flatMap(({ run, action, who }) => (startActs.has(action) ? [[run, who] as const] : [])),
  );
  const others = actions.filter(
    ({ run, action }) => !(startActs.has(action) && run !== null && listed.has(run)),
  );
  return [
    ...(has('runs') ? runs.map((run, index) => runEntry(run, starts.get(run.run) ?? null, index)) : []),
    ...(has('people') ? others.map(actionEntry) : []),
    ...(has('settings') ? scopeChanges.map(scopeEntry) : []),
    ...(has('fields') ? driftEntries(drift) : []),
  ];
}

const startActs: ReadonlySet<ActionName> = new Set(['run-now', 'read-in-full', 'allow-deletes'] as const);

/** Fewer are not worth folding. */
const leastFolded = 4;

/** Entries of one day, newest first. */
function foldedEntries(entries: readonly Entry[]): SafeHtml[] {
  const lines: SafeHtml[] = [];
  let plain: Entry[] = [];
  const flush = (): void => {
    const [newest, oldest] = [plain[0], plain.at(-1)];
    const own = plain.map(entryLine);
    if (newest === undefined || oldest === undefined || plain.length < leastFolded) lines.push(...own);
    else {
      const what = html`${counted(plain.length, 'more run')}, all OK, ${minute(oldest.at)} to
      ${minute(newest.at)}`;
      lines.push(
        html`<li>
          <details>
            <summary>${what}</summary>
            ${list(own, 'line')}
          </details>
        </li>`,
      );
    }
    plain = [];
  };
  for (const one of entries) {
    if (one.isPlain === true) plain.push(one);
    else {
      flush();
      lines.push(entryLine(one));
    }
  }
  flush();
  return lines;
}

function entryLine({ at, state: shown, text, took = '' }: Entry): SafeHtml {
  return html`<li>
    <span class="soft">${minute(at)}</span>${shown}<span>${text}</span><span class="soft">${took}</span>
  </li>`;
}

function titled(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** The newest runs stay in sight. */
const unfolded = 2;

const runNames: Readonly<Record<RunSummary['kind'], string>> = {
  sync: 'Run',
  backfill: 'Backfill',
  refetch: 'Read of one record',
  undo: 'Undo of a run',
};

function runEntry(run: RunSummary, who: string | null, index: number): Entry {
  const { report, kind, startedAt } = run;
  const ms = tookMs(run);
  const deleted = report?.entities.reduce((sum, one) => sum + one.deleted, 0) ?? 0;
  const failure = report?.error ?? report?.failures[0] ?? null;
  const facts = [
    ...(who === null ? [] : [`asked for by ${printable(who)}`]),
    ...(report === null || failure !== null ? [] : [writtenText(rowsWritten(report), recordsRead(report))]),
    ...(deleted === 0 ? [] : [`${count(deleted)} deleted`]),
    ...(failure === null ? [] : [printableWithin(failure.message, mostOfMessage)]),
  ];
  return {
    at: startedAt,
    state: runState(run.state),
    text: html`<a href="../runs/${run.run}">${runNames[kind]}</a>${facts.map((fact) => `, ${fact}`)}`,
    took: ms === null ? '' : duration(ms),
    isPlain: run.state === 'ok' && kind === 'sync' && deleted === 0 && who === null && index >= unfolded,
  };
}

/** The page of the run has the whole message. */
const mostOfMessage = 160;

function writtenText(written: number, read: number): string {
  if (written > 0) return `${counted(written, 'row')} written`;
  return read === 0 ? 'nothing new' : `${counted(read, 'record')} read, nothing new`;
}

/** Keys of records, which some details hold, are values: not every visitor may see these. */
function actionEntry({ at, who, action, entity, detail, run }: NotedAction): Entry {
  const [before, after = ''] = actionVerbs[action];
  const did = `${before.charAt(0).toLowerCase()}${before.slice(1)} it ${after}`.trimEnd();
  const { reason } = detail;
  const why = typeof reason === 'string' ? `: “${printableWithin(reason, mostOfMessage)}”` : '';
  return {
    at,
    state: state('idle', 'Person'),
    text: html`${printable(who)}
    ${did}${entity === null ? '' : html` (<code>${printable(entity)}</code>)`}${why}
    ${run === null ? '' : html` <a href="../runs/${run}">Show the run</a>`}`,
  };
}

function scopeEntry({ startedAt, run, isOtherDefinition, added, left, changed }: ScopeChange): Entry {
  const facts = [
    ...(added.length === 0 ? [] : [html`reads ${codes(added)} too`]),
    ...(left.length === 0 ? [] : [html`no longer reads ${codes(left)}`]),
    ...(changed.length === 0 ? [] : [html`reads ${codes(changed)} with other parameters`]),
    ...(isOtherDefinition ? [html`has another definition of its type`] : []),
  ];
  return {
    at: startedAt,
    state: state('idle', 'Settings'),
    text: html`<a href="../runs/${run}">The run</a> ${joined(facts, '; ')}`,
  };
}

const mostNamed = 5;

function codes(names: readonly string[]): SafeHtml {
  const more = names.length - mostNamed;
  const shown = names.slice(0, mostNamed).map((one) => html`<code>${printable(one)}</code>`);
  return html`${joined(shown)}${more > 0 ? ` and ${count(more)} more` : ''}`;
}

/** Fields that came for the first time in one run. */
function driftEntries(drift: readonly DriftRow[]): readonly Entry[] {
  const met = grouped(drift, ({ entity, kind, firstRun }) => `${entity} ${kind} ${firstRun}`);
  return [...met.values()].flatMap((all) => {
    const [first] = all;
    if (first === undefined) return [];
    const names = all.map(({ entity, field, types }) =>
      field === '*' ? 'further ones' : `${entity}.${field} (${types.join(', ')})`,
    );
    const fields = all.length === 1 ? 'field' : 'fields';
    const what = first.kind === 'misfit' ? `Values that do not fit the ${fields}` : `New ${fields}`;
    const named = html`<code>${printable(firstNames(names, mostNamed))}</code>`;
    const text = html`${what} ${named}; all values are kept. <a href="#fields">Show</a>`;
    return [{ at: first.firstSeenAt, state: state('idle', 'Fields'), text }];
  });
}
