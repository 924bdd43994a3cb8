import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';
import { actionText, type NotedRequest, type searchActions } from '../app/user-actions.ts';
import { printable, printableWithin } from '../telemetry/format.ts';
import { homeOf, page, type PageWorld } from './layout.ts';
import {
  type Column,
  dayTitle,
  head,
  inputField,
  moment,
  param,
  searchOf,
  state,
  table,
  unreadableSinks,
} from './page-parts.ts';

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
  const { shown, ...words } = query;
  const older = searchOf({ ...words, shown: String(Math.min(mostActions, shown * 2)) });
  const nothing = isFiltered ? 'Nothing that was done matches.' : 'Nothing was done by hand yet.';
  const main = html`${head('Actions', 'What people and programs did, here and by commands. Kept for 400 days; entries cannot be changed.')}
    ${unreadableSinks(unreadable.map(({ message }) => message))}
    <form class="toolbar" role="search" aria-label="Filter">
      ${inputField('who', 'Who', '', { value: query.who, placeholder: 'everyone' })}
      ${inputField('q', 'Did', '', { value: query.q, placeholder: 'anything' })}
      ${inputField('on', 'On', '', { value: query.on, placeholder: 'connector or target' })}
      <button>Filter</button>
    </form>
    ${
      actions.length === 0
        ? html`<p>${nothing}</p>`
        : table('Actions', actionColumns(world.nowMs), actions, {
            nameAt: 2,
            name: () => 'wrap',
            group: ({ at }) => dayTitle(at.slice(0, 10), world.nowMs),
          })
    }
    ${isCut ? html`<p class="after soft">Older ones were not looked through.</p>` : ''}
    ${isMore && shown < mostActions ? html`<p class="after"><a href="${older}">Show older</a></p>` : ''}`;
  return page({ title: 'Actions', root: './', at: 'actions', main }, world);
}

function actionColumns(nowMs: number): readonly Column<NotedRequest>[] {
  return [
    ['When', ({ at }) => moment(at, nowMs)],
    ['Who', ({ who }) => printable(who)],
    ['Did', didText],
    [
      'Result',
      ({ run }) => (run === null ? state('ok', 'Done') : html`<a href="runs/${run}">Show the run</a>`),
      'o',
    ],
  ];
}

/** A request as a sentence: the act, its connector or target, and its details. */
function didText(action: NotedRequest): SafeHtml {
  const { before, subject, after, details } = actionText(action);
  const address = homeOf(
    action.connector === null ? { target: subject ?? '' } : { connector: action.connector },
  );
  const link = subject === null ? '' : html`<a class="name" href="${address}">${printable(subject)}</a>`;
  return html`${before} ${link} ${after} <span class="soft">${printableWithin(details, 300)}</span>`;
}
