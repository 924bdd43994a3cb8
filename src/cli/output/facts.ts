import { filled } from './text-table.ts';

const labelWidth = 10;

/** `  pages     by token (cursor)`: what does not fit into `width` (null: everything does) continues below the text. */
export function fact(label: string, text: string, width: number | null): readonly string[] {
  return wordsWithin(text, `  ${label.padEnd(labelWidth)}`, width);
}

/** The text behind `first`, broken between words. */
export function wordsWithin(text: string, first: string, width: number | null): readonly string[] {
  if (width === null) return [`${first}${text}`];
  const hanging = ' '.repeat(first === '' ? 4 : first.length);
  return filled(text.split(' '), first, hanging, width);
}
