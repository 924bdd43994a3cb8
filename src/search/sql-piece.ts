/** What a statement of a search binds. */
export type Bound = string | number | bigint;

/**
 * A piece of a statement with the values for its `?`, in their order. An operand anywhere: it stands in parentheses
 * where it must.
 */
export interface Piece {
  readonly sql: string;
  readonly values: readonly Bound[];
}

export function piece(sql: string, ...values: readonly Bound[]): Piece {
  return { sql, values };
}

export const always = piece('TRUE');
export const never = piece('FALSE');

export function allOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' AND ', { none: always, decisive: never });
}

export function oneOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' OR ', { none: never, decisive: always });
}

/** `none` says nothing among others; `decisive` makes the others superfluous. */
function joined(
  pieces: readonly Piece[],
  by: string,
  { none, decisive }: { readonly none: Piece; readonly decisive: Piece },
): Piece {
  if (pieces.includes(decisive)) return decisive;
  const said = pieces.filter((one) => one !== none);
  const [only] = said;
  if (only === undefined) return none;
  if (said.length === 1) return only;
  return { sql: `(${said.map(({ sql }) => sql).join(by)})`, values: said.flatMap(({ values }) => values) };
}
