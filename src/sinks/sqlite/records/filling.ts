import type { Column, FieldType } from '../../../core/records.ts';

/** How a member of `_extra` becomes the value of a column, as expressions over its row. */
export interface Filling {
  /** Of the member in `_extra`, quoted. */
  readonly path: string;
  /** Whether the member is there. */
  readonly isThere: string;
  /** Whether the column holds the member without loss. Only of one that is there. */
  readonly fits: string;
  /** What the column holds of it. */
  readonly value: string;
}

/** An added column takes null too: what a record says leaves `_extra` whole, as when it comes again. For a declared one the next sync does that. */
export function fillingOf({ name, type, isEvolved }: Column): Filling {
  // A declared name holds nothing that would need an escape in SQL or in a path.
  const path = `'$."${name}"'`;
  const isThere = `json_type(_extra, ${path}) IS NOT NULL`;
  const { fits, value } = fillingOfType(type, path);
  if (isEvolved !== true) return { path, isThere, fits, value };
  const isNull = `json_type(_extra, ${path}) = 'null'`;
  return {
    path,
    isThere,
    fits: `${isNull} OR ${fits}`,
    value: `CASE WHEN ${isNull} THEN NULL ELSE ${value} END`,
  };
}

/** The largest integer up to which every integer is a double: 2^53. */
const exact = 9_007_199_254_740_992;

function fillingOfType(type: FieldType, path: string): Pick<Filling, 'fits' | 'value'> {
  const text = `_extra -> ${path}`;
  const scalar = `_extra ->> ${path}`;
  const jsonType = `json_type(_extra, ${path})`;
  switch (type) {
    case 'string':
      // Without its escaped backslashes, so that the text of a path such as \\udata is not taken for an escape.
      return {
        fits: `${jsonType} = 'text' AND instr(replace(${text}, '\\\\', ''), '\\ud') = 0`,
        value: scalar,
      };
    case 'integer':
      return { fits: `${jsonType} = 'integer' AND typeof(${scalar}) = 'integer'`, value: scalar };
    case 'number':
      return {
        // 1e400 would be infinite.
        fits: `(${jsonType} = 'real' AND abs(${scalar}) <= ${Number.MAX_VALUE} OR ${jsonType} = 'integer' AND ${scalar} BETWEEN -${exact} AND ${exact})`,
        value: scalar,
      };
    case 'boolean':
      return { fits: `${jsonType} IN ('true', 'false')`, value: `(${jsonType} = 'true')` };
    case 'object':
    case 'array':
      return { fits: `${jsonType} = '${type}'`, value: text };
    case 'any':
      return { fits: 'true', value: text };
  }
}
