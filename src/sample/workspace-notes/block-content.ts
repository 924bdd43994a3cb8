import type { JsonObject } from '../../core/json.ts';
import type { Dice } from '../dice.ts';
import { decoratedText, longSentence, richText } from './rich-text.ts';

/** A block before it has an id: its type, what the field of that name holds, and the blocks in it. */
export interface BlockSketch {
  readonly type: string;
  readonly content: JsonObject;
  readonly children: readonly BlockSketch[];
  /** Where the id is given from elsewhere (a child page's block has the page's id). */
  readonly id?: string;
  /** The third party says that it has children, which lie elsewhere. */
  readonly hasChildrenElsewhere?: boolean;
}

export function sketch(
  type: string,
  content: JsonObject = {},
  children: readonly BlockSketch[] = [],
): BlockSketch {
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

export function table(rows: readonly (readonly string[])[]): BlockSketch {
  return sketch(
    'table',
    { table_width: rows[0]?.length ?? 0, has_column_header: true, has_row_header: false },
    rows.map((cells) => sketch('table_row', { cells: cells.map((cell) => richText(cell)) })),
  );
}

export function columns(...contents: readonly (readonly BlockSketch[])[]): BlockSketch {
  return sketch(
    'column_list',
    {},
    contents.map((content) => sketch('column', { width_ratio: 1 / contents.length }, content)),
  );
}

/** An original (null) or a copy of the block with this id. */
export function synced(originalId: string | null, children: readonly BlockSketch[]): BlockSketch {
  const from = originalId === null ? null : { type: 'block_id', block_id: originalId };
  const block = sketch('synced_block', { synced_from: from }, children);
  return originalId === null ? block : { ...block, hasChildrenElsewhere: true };
}

/** One block of each type that holds no other block and is more than a text. */
export function plainBlocks(userId: string, linkedPageId: string): readonly BlockSketch[] {
  const external = (url: string): JsonObject => ({ caption: [], type: 'external', external: { url } });
  const uploaded = (name: string): JsonObject => ({
    caption: richText(name),
    type: 'file',
    file: {
      url: `https://files.example.test/${name}?signature=5f6e7d8c`,
      expiry_time: '2024-03-01T10:00:00.000Z',
    },
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
