/** A piece of a page that may stand there as it is. */
export interface Markup {
  readonly text: string;
}

type Piece = string | number | Markup | readonly Markup[];

/** A template of markup: what is put in is escaped, unless it is markup itself. */
export function markup(parts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  return {
    text: parts.reduce((text, part, index) => `${text}${textOf(pieces[index - 1] ?? '')}${part}`),
  };
}

export const nothing: Markup = { text: '' };

/** Text in which `these` are shown as code. */
export function prose(text: string): Markup {
  return { text: escaped(text).replaceAll(/`([^`]*)`/g, '<code>$1</code>') };
}

function textOf(piece: Piece): string {
  if (typeof piece === 'string' || typeof piece === 'number') return escaped(String(piece));
  return 'text' in piece ? piece.text : piece.map(({ text }) => text).join('');
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
