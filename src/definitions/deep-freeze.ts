/**
 * Freezes plain data with everything inside it, maps and sets included (`Object.freeze` alone leaves their contents
 * open). What is frozen already is taken as done.
 */
export function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    lock(value, ['set', 'delete', 'clear']);
    for (const [key, inner] of value) {
      deepFreeze(key);
      deepFreeze(inner);
    }
  } else if (value instanceof Set) {
    lock(value, ['add', 'delete', 'clear']);
    for (const inner of value) {
      deepFreeze(inner);
    }
  } else {
    Object.freeze(value);
    for (const inner of Object.values(value)) {
      deepFreeze(inner);
    }
  }
  return value;
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
