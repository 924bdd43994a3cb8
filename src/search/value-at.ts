import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { FieldPath } from './search-request.ts';

/**
 * Makes the function that follows a path into a value: null where it leads nowhere, and where something on the way is no
 * object. In every object the rest of the path is tried as one name first, since names may hold dots.
 */
export function valueAt(path: FieldPath): (value: JsonValue) => JsonValue {
  const rests = path.map((_, index) => path.slice(index).join('.'));
  return (value) => {
    let inside = value;
    for (const [index, name] of path.entries()) {
      if (!isJsonObject(inside)) return null;
      const rest = rests[index] ?? name;
      if (Object.hasOwn(inside, rest)) return inside[rest] ?? null;
      if (!Object.hasOwn(inside, name)) return null;
      inside = inside[name] ?? null;
    }
    return inside;
  };
}
