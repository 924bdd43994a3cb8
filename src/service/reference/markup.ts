/** A piece of a page that may stand there as it is. */
export interface Markup {
  readonly text: string;
}

/** `false`: nothing. */
type Piece = string | false | Markup | readonly Markup[];

/** A template of markup: what is put in is escaped, unless it is markup itself. */
export function markup(parts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  return { text: parts.reduce((text, part, index) => `${text}${textOf(pieces[index - 1] ?? false)}${part}`) };
}

/** Text in which `these` are shown as code. */
export function prose(text: string): Markup {
  return { text: escaped(text).replaceAll(/`([^`]*)`/g, '<code>$1</code>') };
}

/** Rows of cells, in a box that scrolls where the screen is narrow, with the keyboard too. */
export function table(name: 'fields' | 'status' | 'actions', rows: readonly (readonly Piece[])[]): Markup {
  const rowOf = (cells: readonly Piece[]): Markup =>
    markup`<tr>${cells.map((cell) => markup`<td>${cell}</td>`)}</tr>`;
  return markup`<div class="wide" tabindex="0"><table class="${name}">${rows.map(rowOf)}</table></div>`;
}

function textOf(piece: Piece): string {
  if (piece === false) return '';
  if (typeof piece === 'string') return escaped(piece);
  return 'text' in piece ? piece.text : piece.map(({ text }) => text).join('');
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
