import { html, type SafeHtml } from '@remix-run/html-template';
import { eventKinds, type PastEvent, pastEvents } from '../app/connector-history.ts';
import { actionVerbs } from '../app/user-actions.ts';
import { recordsRead, rowsDeleted, rowsWritten, runMs } from '../app/run-totals.ts';
import { grouped } from '../core/grouped.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import { chips, dayTitle, joined, list, minute, runState, searchOf, state } from './page-parts.ts';

export const leastShown = 50;
export const mostShown = 1000;

type Of<Kind extends PastEvent['kind']> = Extract<PastEvent, { readonly kind: Kind }>;
type Kind = Parameters<typeof pastEvents>[1];

interface Timeline {
  /** Name of the connector, which is also the address of its page. */
  readonly name: string;
  readonly past: Parameters<typeof pastEvents>[0];
  /** Null: all kinds. */
  readonly show: Kind;
  /** Length at most, of each list of `past` too. */
  readonly shown: number;
}

/**
 * Events of a connector by day, newest first: its runs, acts of people, changes of what it reads, and new fields. Runs
 * in a row that ended well are folded.
 */
export function timeline({ name, past, show, shown }: Timeline, nowMs: number): SafeHtml {
  const all = pastEvents(past, show);
  const isMore =
    all.length > shown || [past.runs, past.actions, past.scopeChanges].some(({ length }) => length === shown);
  const days = [...grouped(all.slice(0, shown), ({ at }) => at.slice(0, 10))].map(
    ([day, events]) =>
      html`<div>
        <h3>${dayTitle(day, nowMs)}</h3>
        ${list(foldedLines(events), 'line')}
      </div>`,
  );
  const link = (kind: Kind, more = ''): string => `${name}${searchOf({ show: kind, shown: more })}#timeline`;
  const kinds = [null, ...eventKinds].map(
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

/** Fewer are not worth folding. */
const leastFolded = 4;

/** Events of one day, newest first. */
function foldedLines(events: readonly PastEvent[]): SafeHtml[] {
  const lines: SafeHtml[] = [];
  let plain: PastEvent[] = [];
  const flush = (): void => {
    const [newest, oldest] = [plain[0], plain.at(-1)];
    const own = plain.map(eventLine);
    if (newest === undefined || oldest === undefined || plain.length < leastFolded) lines.push(...own);
    else {
      const what = html`${counted(plain.length, 'more run')}, all done, ${minute(oldest.at)} to
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
  for (const one of events) {
    if (one.kind === 'run' && one.isPlain) plain.push(one);
    else {
      flush();
      lines.push(eventLine(one));
    }
  }
  flush();
  return lines;
}

function eventLine(event: PastEvent): SafeHtml {
  const [shown, text, took = ''] = eventTexts(event);
  return html`<li>
    <span class="soft">${minute(event.at)}</span>${shown}<span>${text}</span><span class="soft">${took}</span>
  </li>`;
}

function eventTexts(event: PastEvent): readonly [state: SafeHtml, text: SafeHtml, took?: string] {
  switch (event.kind) {
    case 'run': {
      const ms = runMs(event.run);
      return [runState(event.run.state), runText(event), ms === null ? '' : duration(ms)];
    }
    case 'act':
      return [state('idle', 'Person'), actText(event)];
    case 'scope':
      return [state('idle', 'Settings'), scopeText(event)];
    case 'fields':
      return [state('idle', 'Fields'), fieldsText(event)];
  }
}

function titled(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

const runNames: Readonly<Record<RunSummary['kind'], string>> = {
  sync: 'Run',
  backfill: 'Backfill',
  refetch: 'Read of one record',
  undo: 'Undo of a run',
};

function runText({ run: { run, report, kind }, who }: Of<'run'>): SafeHtml {
  const failure = report?.error ?? report?.failures[0] ?? null;
  const deleted = report === null ? 0 : rowsDeleted(report);
  const withheld = (report?.entities ?? []).reduce((sum, one) => sum + one.withheld, 0);
  const facts = [
    who === null ? '' : `asked for by ${printable(who)}`,
    report === null || failure !== null ? '' : writtenText(rowsWritten(report), recordsRead(report)),
    deleted === 0 ? '' : `${count(deleted)} deleted`,
    withheld === 0 ? '' : `${counted(withheld, 'delete')} ${withheld === 1 ? 'waits' : 'wait'} for a person`,
    failure === null ? '' : printableWithin(failure.message, mostOfMessage),
  ];
  return joined([html`<a href="../runs/${run}">${runNames[kind]}</a>`, ...facts]);
}

/** The page of the run has the whole message. */
const mostOfMessage = 160;

function writtenText(written: number, read: number): string {
  if (written > 0) return `${counted(written, 'row')} written`;
  return read === 0 ? 'nothing new' : `${counted(read, 'record')} read, nothing new`;
}

/** Keys of records, which some details hold, are values: not every visitor may see these. */
function actText({ request: { who, action, detail, run, entities } }: Of<'act'>): SafeHtml {
  const [before, after = ''] = actionVerbs[action];
  const { reason, from, to } = detail;
  const isChange = typeof to === 'string' && action === 'schedule';
  const change = `${typeof from === 'string' ? `from ${from} ` : ''}to ${isChange ? to : ''}`;
  const did = isChange ? `Changed the schedule ${change}` : `${before} it ${after}`.trimEnd();
  const why = typeof reason === 'string' ? `: “${printableWithin(reason, mostOfMessage)}”` : '';
  return html`${printable(who)}
  ${printable(`${did.charAt(0).toLowerCase()}${did.slice(1)}`)}${entities.length === 0 ? '' : html` (${codes(entities)})`}${why}
  ${run === null ? '' : html` <a href="../runs/${run}">Show the run</a>`}`;
}

function scopeText({ change: { run, isOtherDefinition, added, left, changed } }: Of<'scope'>): SafeHtml {
  const facts = [
    added.length === 0 ? '' : html`reads ${codes(added)} too`,
    left.length === 0 ? '' : html`no longer reads ${codes(left)}`,
    changed.length === 0 ? '' : html`reads ${codes(changed)} with other parameters`,
    isOtherDefinition ? 'has another definition of its type' : '',
  ];
  return html`<a href="../runs/${run}">The run</a> ${joined(facts, '; ')}`;
}

const mostNamed = 5;

function codes(names: readonly string[]): SafeHtml {
  const more = names.length - mostNamed;
  const shown = names.slice(0, mostNamed).map((one) => html`<code>${printable(one)}</code>`);
  return html`${joined(shown)}${more > 0 ? ` and ${count(more)} more` : ''}`;
}

function fieldsText({ rows }: Of<'fields'>): SafeHtml {
  const names = rows.map(({ entity, field, types }) =>
    field === '*' ? 'further ones' : `${entity}.${field} (${types.join(', ')})`,
  );
  const fields = rows.length === 1 ? 'field' : 'fields';
  const what = rows[0]?.kind === 'misfit' ? `Values that do not fit the ${fields}` : `New ${fields}`;
  const so = rows.some(({ place }) => place === 'quarantine')
    ? 'their records were refused'
    : 'all values are kept';
  return html`${what} <code>${printable(firstNames(names, mostNamed))}</code>; ${so}.
    <a href="#fields">Show</a>`;
}
