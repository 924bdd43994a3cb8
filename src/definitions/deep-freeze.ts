import type { JsonValue } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';

/**
 * Freezes plain data with everything inside it, maps and sets included (`Object.freeze` alone leaves their contents
 * open). What is frozen already is taken as done.
 */
export function deepFreeze<Value>(value: Value): Frozen<Value> {
  freeze(value);
  // `as`: nothing of it can be changed from here on.
  return value as Frozen<Value>;
}

/** Plain data, read-only with everything inside it. */
export type Frozen<Value> = [JsonValue] extends [Value] ? Value : FrozenPart<Value>;

/** What is as it is: nothing of it can be changed. */
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

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  if (value instanceof Map) {
    lock(value, ['set', 'delete', 'clear']);
    for (const [key, inner] of value) {
      freeze(key);
      freeze(inner);
    }
  } else if (value instanceof Set) {
    lock(value, ['add', 'delete', 'clear']);
    for (const inner of value) {
      freeze(inner);
    }
  } else {
    Object.freeze(value);
    for (const inner of Object.values(value)) {
      freeze(inner);
    }
  }
}

function lock(collection: object, methods: readonly string[]): void {
  for (const name of methods) {
    Object.defineProperty(collection, name, { value: refuse });
  }
  Object.freeze(collection);
}

function refuse(): never {
  throw new TypeError('settings and definitions must not be changed after they are loaded');
}
