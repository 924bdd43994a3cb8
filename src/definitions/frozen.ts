import type { JsonValue } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';

/** Marks plain data as read-only from here on: only its type says so, nothing checks it at run time. */
export function frozen<Value>(value: Value): Frozen<Value> {
  // `as`: the same, read-only.
  return value as Frozen<Value>;
}

/** Plain data, read-only with everything inside it. */
export type Frozen<Value> = [JsonValue] extends [Value] ? Value : FrozenPart<Value>;

/** Values that are immutable themselves, or are treated as such. */
type Whole =
  string | number | bigint | boolean | null | undefined | Secret | ((...given: never[]) => unknown);

type FrozenPart<Value> = Value extends Whole
  ? Value
  : Value extends ReadonlyMap<infer Key, infer Inner>
    ? ReadonlyMap<Key, Frozen<Inner>>
    : Value extends ReadonlySet<infer Inner>
      ? ReadonlySet<Inner>
      : { readonly [Key in keyof Value]: Frozen<Value[Key]> };

export type MapValue<Of> = Of extends ReadonlyMap<string, infer Value> ? Value : never;

/** The members of an object by name, each as `convert` makes it. */
export function mapOf<Value, Converted = Value>(
  object: Readonly<Record<string, Value>>,
  // `as`: without it a value is what it was.
  convert: (value: Value, name: string) => Converted = (value) => value as unknown as Converted,
): Map<string, Converted> {
  return new Map(Object.entries(object).map(([name, value]) => [name, convert(value, name)]));
}
