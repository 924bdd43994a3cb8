import type { JsonObject } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { notesKind, type NotesPlan, type Page, type Stamps } from './notes-plan.ts';
import { decoratedText, hostedFile, longSentence, richText } from './rich-text.ts';

/** A block as it stands on a page. Revisions change it in place. */
export interface Block extends Stamps {
  readonly id: string;
  readonly type: string;
  /** What the field named like the type holds. */
  content: JsonObject;
  readonly children: readonly Block[];
  /** A synced copy: the children of the original are its own. */
  readonly isCopy: boolean;
}

/** A block before it has an id. */
interface BlockSketch {
  readonly type: string;
  readonly content: JsonObject;
  readonly children: readonly BlockSketch[];
  readonly id?: string;
}

/** What stands on a page before all revisions, top to bottom; pages and databases below it are not among them. */
export function blocksOf(plan: NotesPlan, page: Page): Block[] {
  return placeBlocks(plan, page, outline(plan, page));
}

/** Gives sketches ids that depend on the page and on `first` alone. */
export function placeBlocks(
  { seed }: NotesPlan,
  { index, createdAt, editedAt, creatorId, editorId }: Stamps & Pick<Page, 'index'>,
  sketches: readonly BlockSketch[],
  first = 0,
): Block[] {
  let number = first;
  const place = ({ type, content, children, id }: BlockSketch): Block => {
    number += 1;
    return {
      id: id ?? diceFor(seed, notesKind.block, index, number).uuid(),
      type,
      content,
      children: children.map(place),
      createdAt,
      editedAt,
      creatorId,
      editorId,
      isCopy: 'synced_from' in content && content['synced_from'] !== null,
    };
  };
  return sketches.map(place);
}

/** The page with more blocks at its top than two pages of a listing hold (only in `small`). */
const longPageIndex = 2;
const emptyPageIndex = 4;
/** A page that shows a copy of the first page's synced block. */
const copyPageIndex = 5;

function outline(plan: NotesPlan, page: Page): readonly BlockSketch[] {
  if (page.index === 0) return showcase(plan);
  if (page.index === emptyPageIndex) return [];
  if (page.index === longPageIndex && plan.size === 'small') {
    return Array.from({ length: 230 }, (_, line) =>
      textBlock('paragraph', `${line + 1}. ${sentences[line % sentences.length]}`),
    );
  }
  const dice = diceFor(plan.seed, notesKind.block, page.index);
  const isTiny = plan.size !== 'small';
  const blocks = everydayBlocks(dice, isTiny ? 3 : 3 + dice.below(9), isTiny ? 1 : 3);
  return page.index === copyPageIndex ? [...blocks, synced(syncedOriginalId(plan), [])] : blocks;
}

function syncedOriginalId({ seed }: NotesPlan): string {
  return diceFor(seed, notesKind.synced).uuid();
}

const packingList = [
  ['toggle', 'Before the trip'],
  ['bulleted_list_item', 'Papers'],
  ['numbered_list_item', 'Passport'],
  ['to_do', 'Renew it by April'],
  ['toggle', 'What the office asks for'],
  ['paragraph', 'Two photos and the old passport'],
] as const;

/** The first page shows every type there is, a list six levels deep, and a synced block with a copy beside it. */
function showcase(plan: NotesPlan): readonly BlockSketch[] {
  const deep = packingList.reduceRight<readonly BlockSketch[]>(
    (below, [type, text]) => [textBlock(type, text, below, type === 'to_do' ? { checked: false } : {})],
    [],
  );
  const shared = synced(null, [
    textBlock('paragraph', 'Office hours: Monday to Thursday, 9 to 17'),
    textBlock('toggle', 'Holidays', [textBlock('paragraph', 'Closed between Christmas and New Year')]),
  ]);
  return [
    textBlock('heading_1', 'Welcome ✨', [], { is_toggleable: false }),
    ...plainBlocks(plan.userIds[0], plan.pages[1]?.id ?? ''),
    ...deep,
    sketch('column_list', {}, [column('What goes well'), column('What we try next')]),
    table([
      ['Name', 'Größe'],
      ['東京', '14'],
    ]),
    sketch('template', { rich_text: [] }, [textBlock('to_do', 'Write the agenda', [], { checked: false })]),
    { ...shared, id: syncedOriginalId(plan) },
    synced(syncedOriginalId(plan), []),
    ...laterBlocks(),
  ];
}

/** Types that the third party has had for a short time. Last, so that those above keep their ids. */
function laterBlocks(): readonly BlockSketch[] {
  const meeting = { title: richText('Monday'), status: 'notes_ready' };
  return [
    textBlock('heading_4', 'Einzelheiten', [], { is_toggleable: false }),
    sketch('audio', { caption: [], type: 'external', external: { url: 'https://audio.example.test/1.mp3' } }),
    textBlock('tab', 'First tab', [textBlock('paragraph', 'What the first tab shows')]),
    sketch('transcription', meeting),
    sketch('meeting_notes', meeting),
  ];
}

function sketch(type: string, content: JsonObject = {}, children: readonly BlockSketch[] = []): BlockSketch {
  return { type, content, children };
}

/** The types whose content is a text, perhaps with something beside it. */
export function textBlock(
  type: string,
  text: string,
  children: readonly BlockSketch[] = [],
  rest: JsonObject = {},
): BlockSketch {
  return sketch(type, { rich_text: richText(text), color: 'default', ...rest }, children);
}

function table(rows: readonly (readonly string[])[]): BlockSketch {
  return sketch(
    'table',
    { table_width: rows[0]?.length ?? 0, has_column_header: true, has_row_header: false },
    rows.map((cells) => sketch('table_row', { cells: cells.map((cell) => richText(cell)) })),
  );
}

function column(text: string): BlockSketch {
  return sketch('column', { width_ratio: 0.5 }, [textBlock('paragraph', text)]);
}

/** An original (null) or a copy of the block with this id. */
function synced(originalId: string | null, children: readonly BlockSketch[]): BlockSketch {
  const from = originalId === null ? null : { type: 'block_id', block_id: originalId };
  return sketch('synced_block', { synced_from: from }, children);
}

/** One block of each type that holds no other block and is more than a text. */
function plainBlocks(userId: string, linkedPageId: string): readonly BlockSketch[] {
  const external = (url: string): JsonObject => ({ caption: [], type: 'external', external: { url } });
  const uploaded = (name: string): JsonObject => ({
    caption: richText(name),
    type: 'file',
    file: hostedFile(name, '5f6e7d8c'),
  });
  return [
    sketch('paragraph', { rich_text: decoratedText(userId), color: 'default' }),
    textBlock('paragraph', longSentence),
    textBlock('heading_2', 'Zwischenstand', [], { is_toggleable: false }),
    textBlock('heading_3', '細目', [], { is_toggleable: false }),
    sketch('code', { caption: [], rich_text: richText('const ü = 1;'), language: 'typescript' }),
    textBlock('callout', 'Change the title to include the date.', [], {
      icon: { type: 'emoji', emoji: '💡' },
      color: 'gray_background',
    }),
    textBlock('quote', 'Wer schreibt, der bleibt.'),
    sketch('divider'),
    sketch('table_of_contents', { color: 'gray' }),
    sketch('bookmark', { caption: [], url: 'https://example.test/article' }),
    sketch('image', uploaded('photo.png')),
    sketch('video', external('https://video.example.test/talk.mp4')),
    sketch('file', { ...uploaded('minutes.docx'), name: 'minutes.docx' }),
    sketch('pdf', external('https://example.test/paper.pdf')),
    sketch('embed', { caption: [], url: 'https://example.test/map' }),
    sketch('equation', { expression: '\\sum_{n} n^2' }),
    sketch('link_preview', { url: 'https://example.test/pull/1' }),
    sketch('link_to_page', { type: 'page_id', page_id: linkedPageId }),
    sketch('breadcrumb'),
    sketch('unsupported'),
  ];
}

const sentences = [
  'Nothing was decided.',
  'Ship it on Friday 🚢',
  'Ответить до вторника',
  '来週まで',
  'Zażółć gęślą jaźń',
] as const;

/** Some blocks as people leave them: texts, and lists with lists in them. */
export function everydayBlocks(dice: Dice, count: number, depth: number): readonly BlockSketch[] {
  return Array.from({ length: count }, () => {
    const type = dice.pick([
      'paragraph',
      'bulleted_list_item',
      'to_do',
      'numbered_list_item',
      'toggle',
      'quote',
    ]);
    const isParent = type !== 'paragraph' && depth > 0 && dice.chance(12);
    const children = isParent ? everydayBlocks(dice, 1 + dice.below(3), depth - 1) : [];
    const text = dice.pick(sentences);
    return textBlock(type, text, children, type === 'to_do' ? { checked: dice.chance(50) } : {});
  });
}
