import type { JsonValue } from '../core/json.ts';

/**
 * Parts of an entity that an import takes from a file that does not prove them. `key`: it tells records apart.
 * `paging`: pages follow one another and end. `hidden`: the listing shows every record. `parent`: the value of the
 * parent leads to its listing.
 */
export const guesses = ['key', 'paging', 'hidden', 'parent'] as const;
export type Guess = (typeof guesses)[number];

/** Parameters that change the order or the form of records. */
const shaping = /sort|order|direction|fields|expand|include_(?:count|total)|format|locale|lang|view/i;
const timeBound = /(?:^|_)(?:since|after|from|start|begin|min)(?:_|$)|(?:Since|After|From|Start|Min)\b/;

export type Asked = readonly [
  name: string,
  param: { readonly type: string; readonly enum?: readonly string[] | null },
];

/**
 * Parameters of `list` that may hide records, each with values to try instead of its fixed value (`fixed`) or of no
 * value. Skips parameters that the walk sets (`taken`). Values that show all records come first; one accepted value of
 * a time bound is enough.
 */
export function hidingParams(
  params: Iterable<Asked>,
  fixed: Readonly<Record<string, JsonValue>>,
  taken: readonly unknown[],
): ReadonlyMap<string, readonly JsonValue[]> {
  return new Map(
    [...params].flatMap(([name, { type, enum: choices }]): (readonly [string, readonly JsonValue[]])[] => {
      if (taken.includes(name) || shaping.test(name)) return [];
      const values =
        type === 'boolean'
          ? [true, false]
          : choices?.toSorted((one, other) => Number(isAll(other)) - Number(isAll(one)));
      if (values !== undefined) return [[name, values.filter((value) => value !== fixed[name])]];
      const isBound = type === 'string' && timeBound.test(name) && !Object.hasOwn(fixed, name);
      return isBound ? [[name, ['1970-01-01T00:00:00Z', '1970-01-01']]] : [];
    }),
  );
}

function isAll(choice: string): boolean {
  return /^(?:all|any|both|\*)$/i.test(choice);
}
