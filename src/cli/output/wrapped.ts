import { displayWidth } from './display-width.ts';

const hanging = '    ';

/**
 * An enumeration in lines of at most `width` characters (null: one line), broken behind commas; a longer part stays whole.
 * Lines after the first are indented four further. Not for what people copy: a broken command is no command.
 */
export function wrapped(text: string, width: number | null): readonly string[] {
  if (width === null || displayWidth(text) <= width) return [text];
  const indent = /^ */.exec(text)?.[0] ?? '';
  const lines: string[] = [];
  let line = indent;
  for (const part of text.trim().split(/(?<=,) /)) {
    const longer = line.trim() === '' ? `${line}${part}` : `${line} ${part}`;
    if (displayWidth(longer) <= width || line.trim() === '') {
      line = longer;
      continue;
    }
    lines.push(line);
    line = `${indent}${hanging}${part}`;
  }
  return [...lines, line];
}
