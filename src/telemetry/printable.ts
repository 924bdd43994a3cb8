// C0 and C1 controls, line and paragraph separators, bidirectional marks and overrides, zero-width characters and the
// byte order mark.
const unprintable = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/**
 * Text from outside as one inert line for a person: characters that could move the cursor, recolour the terminal, fake
 * a line or reverse the reading order become `�`. Names, messages and values all pass through here before they are
 * shown.
 */
export function printable(text: string): string {
  return text.toWellFormed().replace(unprintable, '\ufffd');
}

/** `printable`, cut to `width` characters with an ellipsis. */
export function printableWithin(text: string, width: number): string {
  const characters = Array.from(printable(text));
  if (characters.length <= width) return characters.join('');
  return width <= 0 ? '' : `${characters.slice(0, width - 1).join('')}…`;
}
