/** What a statement of a search binds. */
export type Bound = string | number | bigint | Buffer | null;

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

/** SQL knows a third value, unknown: `and` and `or` keep it from counting as true, and `negated` takes it for false. */
export function allOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' AND ', always);
}

export function oneOf(pieces: readonly Piece[]): Piece {
  return joined(pieces, ' OR ', never);
}

export function negated({ sql, values }: Piece): Piece {
  return { sql: `(${sql} IS NOT TRUE)`, values };
}

/** `empty` decides nothing among others. */
function joined(pieces: readonly Piece[], by: string, empty: Piece): Piece {
  const deciding = pieces.filter((one) => one !== empty);
  const [only] = deciding;
  if (only === undefined) return empty;
  if (deciding.length === 1) return only;
  return {
    sql: `(${deciding.map(({ sql }) => sql).join(by)})`,
    values: deciding.flatMap(({ values }) => values),
  };
}
