// Latin, Greek and Cyrillic, without marks: one column each.
const plain = /^[\u0020-\u007e\u00a1-\u02ff\u0370-\u0482\u048a-\u058f]*$/;
/** What terminals give two columns: East Asian wide and fullwidth signs, and emoji. */
const wide =
  /^[\u1100-\u115f\u231a-\u231b\u23e9-\u23ec\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1b000}-\u{1b2ff}\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1faff}\u{20000}-\u{3fffd}]$/u;
/** Marks that are written over the sign before, and what is not seen at all. */
const none = /^[\p{Mn}\p{Me}\p{Cf}]$/u;

/** How many columns of a terminal a text takes; for text that `printable` has made inert. */
export function displayWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOf(character);
  return width;
}

/** The text, or as much of its beginning as leaves room for an ellipsis. */
export function cutToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let room = width - 1;
  for (const character of text) {
    room -= widthOf(character);
    if (room < 0) break;
    kept += character;
  }
  return width <= 0 ? '' : `${kept}…`;
}

function widthOf(character: string): number {
  if (none.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}
