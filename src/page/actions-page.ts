import { html } from '@remix-run/html-template';
import * as z from 'zod';
import { actionText, type NotedRequest, type searchActions } from '../app/user-actions.ts';
import { grouped } from '../core/grouped.ts';
import { printable, printableWithin } from '../telemetry/format.ts';
import {
  callout,
  dayTitle,
  head,
  inputField,
  moment,
  page,
  type PageWorld,
  param,
  searchOf,
  state,
  table,
  type TableRow,
} from './layout.ts';

const leastActions = 100;
const mostActions = 1_000;

/**
 * Words of the search; empty: all actions. `on`: a connector or target; `q`: a word of what was done, or of its
 * details.
 */
export const actionsQuery = z.object({
  who: param.text,
  q: param.text,
  on: param.text,
  shown: param.number(leastActions, mostActions),
});

/** Things that people and programs did, newest first, by day. */
export function actionsPage(
  { actions, isFiltered, isMore, isCut, unreadable }: Awaited<ReturnType<typeof searchActions>>,
  query: z.output<typeof actionsQuery>,
  world: PageWorld,
): string {
  const days = [...grouped(actions, ({ at }) => at.slice(0, 10))];
  const columns = ['When', 'Who', 'Did', ['Result', 'o']] as const;
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
      ${inputField('who', 'Who', '', { value: query.who, placeholder: 'everyone' })}
      ${inputField('q', 'Did', '', { value: query.q, placeholder: 'anything' })}
      ${inputField('on', 'On', '', { value: query.on, placeholder: 'connector or target' })}
      <button>Filter</button>
    </form>
    ${actions.length === 0 ? html`<p>${nothing}</p>` : table('Actions', columns, rows)}
    ${isCut ? html`<p class="after soft">Older ones were not looked through.</p>` : ''}
    ${isMore && shown < mostActions ? html`<p class="after"><a href="${older}">Show older</a></p>` : ''}`;
  return page({ title: 'Actions', root: './', at: 'actions', main }, world);
}

/** A request as a sentence: the act, its connector or target, and its details. */
function actionRow(action: NotedRequest, { nowMs }: PageWorld): TableRow {
  const { at, who, connector, run } = action;
  const { before, subject, after, details } = actionText(action);
  const address = connector === null ? `targets/${subject ?? ''}` : `connectors/${connector}`;
  const link = subject === null ? '' : html`<a class="name" href="${address}">${printable(subject)}</a>`;
  const cells = [
    moment(at, nowMs),
    printable(who),
    html`${before} ${link} ${after} <span class="soft">${printableWithin(details, 300)}</span>`,
    run === null ? state('ok', 'Done') : html`<a href="runs/${run}">Show the run</a>`,
  ];
  return { cells, nameAt: 2, nameLook: 'wrap' };
}
