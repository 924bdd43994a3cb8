import { html } from '@remix-run/html-template';
import * as z from 'zod';
import { newestActions } from '../app/find-run.ts';
import { grouped } from '../core/grouped.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { ActionName, NotedAction } from '../sinks/requests.ts';
import { printable, printableWithin } from '../telemetry/format.ts';
import { actionDetail } from '../wording/connector-text.ts';
import {
  callout,
  head,
  moment,
  page,
  type PageWorld,
  dayTitle,
  param,
  searchOf,
  state,
  table,
  type TableRow,
} from './layout.ts';

const leastActions = 100;
const mostActions = 1_000;
/** Searched at most in each sink. */
const mostSearched = 5_000;

/**
 * Words of the search; empty: all actions. `on`: a connector or target; `q`: a word of what was done, or of its
 * details.
 */
const actionsQuery = z.object({
  who: param.text,
  q: param.text,
  on: param.text,
  shown: param.number(leastActions, mostActions),
});
type ActionsQuery = z.output<typeof actionsQuery>;

export async function readActionsPage(settings: LocalSettings, asked: unknown) {
  const query = actionsQuery.parse(asked);
  const isFiltered = [query.who, query.on, query.q].some((text) => text !== '');
  const limit = isFiltered ? mostSearched : query.shown + 1;
  const { actions, unreadable } = await newestActions(settings, { limit });
  const matching = actions.filter((action) => matches(action, query));
  return {
    query,
    isFiltered,
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
  { actions, isFiltered, isMore, isCut, query, unreadable }: Awaited<ReturnType<typeof readActionsPage>>,
  world: PageWorld,
): string {
  const days = [...grouped(actions, ({ at }) => at.slice(0, 10))];
  const columns = ['When', 'Who', 'Did', ['Details', 'o cut'], 'Result'] as const;
  const rows = days.flatMap(([day, ofDay]): TableRow[] => [
    { group: dayTitle(day, world.nowMs) },
    ...ofDay.map((action) => actionRow(action, world)),
  ]);
  const { shown, ...words } = query;
  const older = searchOf({ ...words, shown: String(Math.min(mostActions, shown * 2)) });
  const nothing = isFiltered ? 'Nothing that was done matches.' : 'Nothing was done by hand yet.';
  const main = html`${head('Actions', 'What people and programs did, here and by commands. Kept for 400 days; entries cannot be changed.')}
    ${unreadable.map(({ message }) => callout('bad', 'A sink cannot be read', html`<p>${printable(message)}</p>`))}
    <form class="toolbar" role="search" aria-label="Filter">
      ${[filterInput('who', 'Who', query.who, 'everyone', 10), filterInput('q', 'Did', query.q, 'anything', 12)]}
      ${filterInput('on', 'On', query.on, 'connector or target', 16)}
      <button>Filter</button>
    </form>
    ${actions.length === 0 ? html`<p>${nothing}</p>` : table('Actions', columns, rows)}
    ${isCut ? html`<p class="after soft">Only the newest ${mostSearched} were looked through.</p>` : ''}
    ${isMore && shown < mostActions ? html`<p class="after"><a href="${older}">Show older</a></p>` : ''}`;
  return page({ title: 'Actions', root: './', at: 'actions', main }, world);
}

function filterInput(name: string, label: string, value: string, placeholder: string, size: number) {
  return html`<label for="${name}">${label}</label
    ><input
      id="${name}"
      name="${name}"
      type="search"
      value="${value}"
      placeholder="${placeholder}"
      size="${size}"
    />`;
}

function actionRow(action: NotedAction, { nowMs }: PageWorld): TableRow {
  const { at, who, connector, entity, run } = action;
  const [before, after = ''] = verbs[action.action];
  const subject = subjectOf(action);
  const address = connector === null ? `targets/${subject ?? ''}` : `connectors/${connector}`;
  // Names of runs and of the target are links already.
  const { target: _target, run: _run, ...detail } = action.detail;
  const details = printableWithin(actionDetail({ ...action, detail }), 300);
  const link = subject === null ? '' : html`<a class="name" href="${address}">${printable(subject)}</a>`;
  const cells = [
    moment(at, nowMs),
    printable(who),
    html`${before} ${link} ${after}`,
    html`<span title="${details}">${[entity ?? '', details].filter((text) => text !== '').join(', ')}</span>`,
    run === null ? state('ok', 'Done') : html`<a href="runs/${run}">Show the run</a>`,
  ];
  return { cells, nameAt: 2 };
}
