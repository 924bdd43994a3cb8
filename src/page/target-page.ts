import { html } from '@remix-run/html-template';
import { targetStatus } from '../app/publish-target.ts';
import type { Clock } from '../core/clock.ts';
import { heldBackTexts } from '../publish/publication.ts';
import { isStillPublished } from '../settings/choices.ts';
import { formatDuration } from '../settings/texts.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../settings/settings.ts';
import { count, printable } from '../telemetry/format.ts';
import { actLink, age, moment, facts, page, type PageWorld, table, type TableColumn } from './layout.ts';

/** The state of a target of `publish`. This is the only page that asks something other than a ledger. */
export async function targetPage(
  settings: LocalSettings,
  target: PublishSettings,
  how: { readonly clock: Clock; readonly signal: AbortSignal },
  world: PageWorld,
): Promise<string> {
  checkTargets(settings, [target]);
  const { newest, isUpToDate, newGeneration, refusal, heldBack } = await targetStatus(target, how);
  const { nowMs } = world;
  const { when, name, type } = target;
  const manifest = newest?.manifest ?? null;
  const columns: readonly TableColumn[] = [
    'entity',
    'complete as of',
    ['rows it added or changed', 'num'],
    ['rows it deleted', 'num'],
    '',
  ];
  const rows = (manifest?.entities ?? []).map((one) => [
    `${one.connector}/${one.entity}`,
    age(one.asOf, nowMs),
    count(one.upserts),
    count(one.deletes),
    isStillPublished(target, one) ? '' : 'no longer in the config',
  ]);
  const main = html`<h1>${name}</h1>
    <p class="acts">${actLink(world, '../', ['publish-now', 'Publish now'], { target: name })}</p>
    ${refusal === null ? '' : html`<p class="callout bad">${printable(refusal.message)}</p>`}
    ${facts([
      ['Kind', type],
      ['Published', whenText(when)],
      [
        'Newest publication',
        manifest === null
          ? 'none yet'
          : html`number ${String(manifest.publication)}, ${moment(manifest.createdAt, nowMs)}`,
      ],
      ['State', manifest === null ? null : isUpToDate ? 'up to date' : 'something newer is stored'],
      ['Next one', newGeneration === null ? null : `has all rows again, because ${newGeneration}`],
      ['Held back', heldBack.length === 0 ? null : heldBackTexts(heldBack).join('; ')],
    ])}
    ${rows.length === 0 ? '' : table('Entities', columns, rows)}`;
  return page({ title: name, root: '../', at: 'targets', main, isLive: false }, world);
}

function whenText(when: PublishSettings['when']): string {
  switch (when.kind) {
    case 'every':
      return `every ${formatDuration(when.everyMs)}`;
    case 'after-sync':
      return 'after each sync';
    case 'by-hand':
      return 'by hand';
  }
}
