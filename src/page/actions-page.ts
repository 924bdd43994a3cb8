import { html, type SafeHtml } from '@remix-run/html-template';
import { newestActions } from '../app/find-run.ts';
import { grouped } from '../core/grouped.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { ActionName, NotedAction } from '../sinks/requests.ts';
import { printable, printableWithin } from '../telemetry/format.ts';
import { actionDetail } from '../wording/connector-text.ts';
import { callout, head, moment, page, type PageWorld, dayTitle } from './layout.ts';

/** Words of the search; empty: all actions. */
interface ActionsQuery {
  readonly who: string;
  /** A connector or target. */
  readonly on: string;
  /** A word of what was done, or of its details. */
  readonly q: string;
  readonly shown: number;
}

export const leastActions = 100;
export const mostActions = 1_000;
/** Searched at most in each sink. */
const mostSearched = 5_000;

export async function readActionsPage(settings: LocalSettings, query: ActionsQuery) {
  const isFiltered = [query.who, query.on, query.q].some((text) => text !== '');
  const limit = isFiltered ? mostSearched : query.shown + 1;
  const { actions, unreadable } = await newestActions(settings, { limit });
  const matching = actions.filter((action) => matches(action, query));
  return {
    query,
    actions: matching.slice(0, query.shown),
    isMore: matching.length > query.shown,
    /** Older ones were not looked through. */
    isCut: isFiltered && actions.length >= mostSearched,
    unreadable,
  };
}

function matches(action: NotedAction, { who, on, q }: ActionsQuery): boolean {
  const has = (text: string, part: string): boolean => text.toLowerCase().includes(part.trim().toLowerCase());
  const said = `${verbs[action.action][0]} ${action.entity ?? ''} ${actionDetail(action)}`;
  return has(action.who, who) && has(subjectOf(action) ?? '', on) && has(said, q);
}

/** Begins the text before the name of the connector or target, and ends it. */
export const verbs: Readonly<Record<ActionName, readonly [before: string, after?: string]>> = {
  pause: ['Paused'],
  resume: ['Resumed'],
  cancel: ['Stopped a run of'],
  reset: ['Discarded the progress of'],
  remove: ['Removed', 'from the sink'],
  adopt: ['Changed the workspace of'],
  undo: ['Undid a run of'],
  purge: ['Purged records of'],
  refetch: ['Read a record again of'],
  'allow-deletes': ['Allowed deletes of', 'once'],
  'read-in-full': ['Read everything again of'],
  'run-now': ['Started a run of'],
  'publish-now': ['Published into'],
  check: ['Checked'],
  'mark-known': ['Marked new fields as known of'],
  add: ['Added', 'to the config'],
  schedule: ['Changed the schedule of'],
  'copy-from': ['Copied', 'here from another sink'],
  'copy-to': ['Copied', 'to another sink'],
  'copy-discarded': ['Discarded an unfinished copy of'],
  'copy-reopened': ['Took back', 'after a copy'],
};

/** The target of a publication has no connector. */
function subjectOf({ connector, detail }: NotedAction): string | null {
  const { target } = detail;
  return connector ?? (typeof target === 'string' ? target : null);
}

/** Things that people and programs did, newest first, by day. */
export function actionsPage(
  { actions, isMore, isCut, query, unreadable }: Awaited<ReturnType<typeof readActionsPage>>,
  world: PageWorld,
): string {
  const days = grouped(actions, ({ at }) => at.slice(0, 10));
  const main = html`${head('Actions', 'People and programs did this, here and by commands. Kept for 400 days; nobody can edit it.')}
  ${unreadable.map(({ message }) => callout('bad', 'A sink cannot be read', html`<p>${printable(message)}</p>`))}
  ${filterForm(query)}
  ${
    actions.length === 0
      ? html`<p>
          ${Object.values(query).some((text) => typeof text === 'string' && text !== '') ? 'Nothing that was done matches.' : 'Nothing was done by hand yet.'}
        </p>`
      : html`<div class="wide" tabindex="0" role="region" aria-label="Actions">
          <table>
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Who</th>
                <th scope="col">Did</th>
                <th scope="col" class="o cut">Details</th>
                <th scope="col">Result</th>
              </tr>
            </thead>
            <tbody>
              ${[...days].map(
                ([day, ofDay]) =>
                  html`<tr class="group">
                      <th colspan="5" scope="rowgroup">${dayTitle(day, world.nowMs)}</th>
                    </tr>
                    ${ofDay.map((action) => actionRow(action, world))}`,
              )}
            </tbody>
          </table>
        </div>`
  }
  ${isCut ? html`<p class="after soft">Only the newest ${mostSearched} were looked through.</p>` : ''}
  ${isMore && query.shown < mostActions ? olderLink(query) : ''}`;
  return page({ title: 'Actions', root: './', at: 'actions', main }, world);
}

function filterForm({ who, on, q }: ActionsQuery): SafeHtml {
  return html`<form class="toolbar" role="search" aria-label="Filter">
    <label for="who">Who</label
    ><input id="who" name="who" type="search" value="${who}" placeholder="everyone" size="10" />
    <label for="q">Did</label
    ><input id="q" name="q" type="search" value="${q}" placeholder="anything" size="12" />
    <label for="on">On</label
    ><input id="on" name="on" type="search" value="${on}" placeholder="connector or target" size="16" />
    <button>Filter</button>
  </form>`;
}

function olderLink({ who, on, q, shown }: ActionsQuery): SafeHtml {
  const some = Object.entries({ who, on, q }).filter(([, text]) => text !== '');
  const params = new URLSearchParams([...some, ['shown', String(Math.min(mostActions, shown * 2))]]);
  return html`<p class="after"><a href="?${params.toString()}">Show older</a></p>`;
}

function actionRow(action: NotedAction, { nowMs }: PageWorld): SafeHtml {
  const { at, who, connector, entity, run } = action;
  const [before, after = ''] = verbs[action.action];
  const subject = subjectOf(action);
  const address = connector === null ? `targets/${subject ?? ''}` : `connectors/${connector}`;
  const details = detailsOf(action);
  return html`<tr>
    <td>${moment(at, nowMs)}</td>
    <td>${printable(who)}</td>
    <td class="wrap">
      ${before} ${subject === null ? '' : html`<a class="name" href="${address}">${printable(subject)}</a>`}
      ${after}
    </td>
    <td class="o cut soft" title="${details}">
      ${[entity ?? '', details].filter((text) => text !== '').join(', ')}
    </td>
    <td>
      ${run === null ? html`<span class="state ok">Done</span>` : html`<a href="runs/${run}">Show the run</a>`}
    </td>
  </tr>`;
}

/** Names of runs and of the target are links already. */
function detailsOf(action: NotedAction): string {
  const { target: _target, run: _run, ...detail } = action.detail;
  return printableWithin(actionDetail({ ...action, detail }), 300);
}
