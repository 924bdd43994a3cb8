import { displayWidth, filled } from './text-table.ts';

const exampleNote = /^(\s*\$ .*?\S)(?:\s{2,}(\S.*))?$/;
/** `  --flag <value>  what it does`: where the second column begins. */
const secondColumn = /^\s+\S.*?\s{2,}(?=\S)/;

/**
 * A help text in lines of at most `width` columns, broken between words. Paragraphs are filled again, lists keep their
 * columns, and a command of an example that is too long continues after a backslash, so that it can still be copied. A
 * single word that is longer stays whole. A text that fits is left as it is.
 */
export function wrapHelp(text: string, width: number): string {
  const lines = text.split('\n');
  if (lines.every((line) => displayWidth(line) <= width)) return text;
  const wrapped: string[] = [];
  let paragraph: string[] = [];
  const endParagraph = (): void => {
    const isLong = paragraph.some((line) => displayWidth(line) > width);
    wrapped.push(...(isLong ? filled(words(paragraph.join(' ')), '', '', width) : paragraph));
    paragraph = [];
  };
  for (const line of lines) {
    if (/^\S/.test(line)) {
      paragraph.push(line);
      continue;
    }
    endParagraph();
    wrapped.push(...wrapLine(line, width));
  }
  endParagraph();
  return wrapped.join('\n');
}

function wrapLine(line: string, width: number): readonly string[] {
  if (displayWidth(line) <= width) return [line];
  const indent = /^\s*/.exec(line)?.[0] ?? '';
  const [, command, note] = exampleNote.exec(line) ?? [];
  if (command !== undefined) {
    const deeper = `${indent}    `;
    const notes = note === undefined ? [] : filled(words(note), deeper, deeper, width);
    return [...wrapCommand(command.trim(), indent, deeper, width), ...notes];
  }
  const column = secondColumn.exec(line)?.[0] ?? indent;
  // A column too far to the right leaves no room for words: then the text begins below.
  const hanging = column.length <= width / 2 ? ' '.repeat(column.length) : `${indent}    `;
  return column.length <= width / 2
    ? filled(words(line.slice(column.length)), column, hanging, width)
    : [column.trimEnd(), ...filled(words(line.slice(column.length)), hanging, hanging, width)];
}

/** Two columns are kept for ` \`. */
function wrapCommand(command: string, indent: string, deeper: string, width: number): readonly string[] {
  if (displayWidth(`${indent}${command}`) <= width) return [`${indent}${command}`];
  const lines = filled(shellWords(command), indent, deeper, width - 2);
  return lines.map((line, index) => (index < lines.length - 1 ? `${line} \\` : line));
}

function words(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}

/** Blanks within quotes belong to a word. */
function shellWords(command: string): readonly string[] {
  return command.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [];
}
