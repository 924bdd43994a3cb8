const escape = '\uE000';

/**
 * PostgreSQL refuses U+0000 in a text. It is stored as U+E000 `0`, and U+E000 itself as U+E000 `1`; nothing else
 * changes, and equal texts stay equal. `json` columns hold the input unchanged: there, U+0000 is written as six
 * characters.
 */
export function writeText(text: string): string {
  if (!text.includes('\0') && !text.includes(escape)) return text;
  return text.replaceAll(escape, `${escape}1`).replaceAll('\0', `${escape}0`);
}

export function readText(text: string): string {
  if (!text.includes(escape)) return text;
  return text.replace(/\uE000([01])/g, (_, mark: string) => (mark === '0' ? '\0' : escape));
}

/** SQL: the stored text has an escape. */
export function hasEscape(sql: string): string {
  return `strpos(${sql}, chr(${escape.codePointAt(0)})) > 0`;
}
