import { html } from '@remix-run/html-template';
import type { newestActions } from '../app/find-run.ts';
import { printable } from '../telemetry/format.ts';
import { actionDetail } from '../wording/action-text.ts';
import { ago, page, wideTable, type PageWorld } from './layout.ts';

const columns = ['when', 'who', 'what', 'connector', 'details'].map((title) => ({ title }));

/** What people did to any connector or target, newest first. */
export function actionsPage(
  { actions, unreadable }: Awaited<ReturnType<typeof newestActions>>,
  world: PageWorld,
): string {
  const rows = actions.map((action) => {
    const { at, who, connector, entity, run } = action;
    const details = [entity ?? '', actionDetail(action)].filter((text) => text !== '').join(', ');
    return [
      ago(at, world.nowMs),
      printable(who),
      action.action,
      connector === null ? '' : html`<a href="connectors/${connector}">${connector}</a>`,
      html`${printable(details)} ${run === null ? '' : html`<a href="runs/${run}">run</a>`}`,
    ];
  });
  const main = html`<h1>Actions</h1>
    <p>What people did, by commands and on these pages. Kept for 400 days.</p>
    ${unreadable.map(({ message }) => html`<p class="notice failed">${printable(message)}</p>`)}
    ${rows.length === 0 ? html`<p>Nothing was done by hand yet.</p>` : wideTable('Actions', columns, rows)}`;
  return page({ title: 'Actions', root: './', main, isLive: false }, world);
}
