/** An SQL identifier: always quoted, so that no name is a keyword or an expression. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
