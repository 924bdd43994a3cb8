import type { JsonValue } from '../core/json.ts';
import { usage } from '../core/errors.ts';
import type { Entity } from '../definitions/definition.ts';

/* Parts of a query as people write them. `called`: what messages call the text. */

/** `send_time:desc,id`: ascending by default. */
export function readSort(text: string, called: string): JsonValue {
  return listOf(text, called).map((part) => {
    const [, name = part, direction = 'asc'] = /^(.+):(asc|desc)$/.exec(part) ?? [];
    if (/:[^.]*$/.test(name)) throw usage(`${called}: expected <field>:asc or <field>:desc, got "${part}".`);
    // A null prototype lets a field called `__proto__` be an ordinary name.
    const key = Object.create(null) as Record<string, string>;
    key[name] = direction;
    return key;
  });
}

/** Path as an array of names, in which a dot is no separator. */
export function pathOf({ searchable, fields }: Entity, name: string): readonly string[] {
  return searchable.has(name) || fields.has(name) ? [name] : name.split('.');
}

/** Throws USAGE, naming `called`, for an empty name. */
export function listOf(text: string, called: string): readonly string[] {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.some((part) => part === '')) {
    throw usage(`${called}: expected names separated by commas, got "${text}".`);
  }
  return parts;
}
