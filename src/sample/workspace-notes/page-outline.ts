import { diceFor } from '../dice.ts';
import {
  columns,
  everydayBlocks,
  plainBlocks,
  sketch,
  synced,
  table,
  textBlock,
  type BlockSketch,
} from './block-content.ts';
import { notesKind, type NotesPlan, type Page } from './notes-plan.ts';

/** The page with more blocks at its top than two pages of a listing hold (only in `small`). */
const longPageIndex = 2;
const emptyPageIndex = 1;
/** A page that shows a copy of the first page's synced block. */
const copyPageIndex = 5;

/** What stands on a page, top to bottom. */
export function pageOutline(plan: NotesPlan, page: Page): readonly BlockSketch[] {
  const hosted = [...childPages(plan, page), ...childDatabases(plan, page)];
  const dice = diceFor(plan.seed, notesKind.block, page.index);
  if (page.index === 0) return [...showcase(plan), ...hosted];
  if (page.index === emptyPageIndex) return [];
  if (page.index === longPageIndex && plan.size === 'small') {
    return Array.from({ length: 230 }, (_, line) => textBlock('paragraph', `Line ${line + 1}`));
  }
  const copies = page.index === copyPageIndex ? [synced(syncedOriginalId(plan), [])] : [];
  const count = plan.size === 'tiny' ? 3 : 3 + dice.below(9);
  return [...everydayBlocks(dice, count, plan.size === 'tiny' ? 1 : 3), ...copies, ...hosted];
}

/** The first page shows every type there is, a list six levels deep, and a synced block with a copy beside it. */
function showcase(plan: NotesPlan): readonly BlockSketch[] {
  const [userId] = plan.userIds;
  const linkedPageId = plan.pages[1]?.id ?? '';
  const levels = ['toggle', 'bulleted_list_item', 'numbered_list_item', 'to_do', 'toggle', 'paragraph'];
  const deep = levels.reduceRight<readonly BlockSketch[]>(
    (below, type, level) => [
      textBlock(type, `Level ${level}`, below, type === 'to_do' ? { checked: false } : {}),
    ],
    [],
  );
  const original = synced(null, [
    textBlock('paragraph', 'Written once, shown everywhere'),
    textBlock('toggle', 'More', [textBlock('paragraph', 'Also below a synced block')]),
  ]);
  return [
    textBlock('heading_1', 'Everything at once ✨', [], { is_toggleable: false }),
    ...plainBlocks(userId, linkedPageId),
    ...deep,
    columns([textBlock('paragraph', 'left')], [textBlock('paragraph', 'right')]),
    table([
      ['Name', 'Größe'],
      ['東京', '14'],
    ]),
    sketch('template', { rich_text: [] }, [textBlock('to_do', 'From a template', [], { checked: false })]),
    { ...original, id: syncedOriginalId(plan) },
    synced(syncedOriginalId(plan), []),
  ];
}

function syncedOriginalId(plan: NotesPlan): string {
  return diceFor(plan.seed, notesKind.synced).uuid();
}

/** A page below this one is a block here, with the page's own id. Trashed pages leave no block. */
function childPages(plan: NotesPlan, page: Page): readonly BlockSketch[] {
  return plan.pages
    .filter(({ place, isTrashed }) => !isTrashed && place.kind === 'page' && place.parentIndex === page.index)
    .map(({ id, title }) => ({ ...sketch('child_page', { title }), id, hasChildrenElsewhere: true }));
}

function childDatabases(plan: NotesPlan, page: Page): readonly BlockSketch[] {
  return plan.databases
    .filter(({ hostIndex }) => hostIndex === page.index)
    .map(({ id, title }) => ({ ...sketch('child_database', { title }), id, hasChildrenElsewhere: true }));
}
