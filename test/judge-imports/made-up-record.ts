import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { membersOf, type PublicFile } from './public-file.ts';

/** Below it, an object or array is empty. */
const mostLevels = 4;
const mostMembers = 60;

/** A record as its schema has it: optional fields are absent or null now and then, and one is in no schema. */
export function madeUpRecord(
  schema: JsonObject,
  resolve: PublicFile['resolve'],
  random: () => number,
  number: number,
): JsonObject {
  const record = objectOf(schema, resolve, random, 0);
  return { ...record, undeclared_by_the_file: `number ${number}` };
}

function objectOf(
  schema: JsonObject,
  resolve: PublicFile['resolve'],
  random: () => number,
  level: number,
): JsonObject {
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
  const members = Object.entries(membersOf(schema, resolve)).slice(0, mostMembers);
  return Object.fromEntries(
    members.flatMap(([name, one]): readonly (readonly [string, JsonValue])[] => {
      const value = valueOf(resolve(one), resolve, random, level + 1);
      const dice = random();
      if (required.has(name) || dice < 0.8) return [[name, value]];
      return dice < 0.9 ? [[name, null]] : [];
    }),
  );
}

function valueOf(
  schema: JsonObject,
  resolve: PublicFile['resolve'],
  random: () => number,
  level: number,
): JsonValue {
  const choices = schema['enum'];
  if (Array.isArray(choices) && choices.length > 0) {
    return choices[Math.floor(random() * choices.length)] ?? null;
  }
  const whole = Math.floor(random() * 1_000_000);
  switch (typeOf(schema, resolve) ?? 'any') {
    case 'integer':
      return whole;
    case 'number':
      return whole / 4;
    case 'boolean':
      return whole % 2 === 0;
    case 'string':
      return textFor(schema, whole);
    case 'array': {
      const element = resolve(schema['items']);
      const length = level > mostLevels ? 0 : whole % 3;
      return Array.from({ length }, () => valueOf(element, resolve, random, level + 1));
    }
    case 'object':
      return level > mostLevels ? {} : objectOf(schema, resolve, random, level);
    default:
      // The file leaves the type open: so do the values.
      return [`text ${whole}`, whole, { of: whole }, [whole], whole % 2 === 0][whole % 5] ?? null;
  }
}

function typeOf(schema: JsonObject, resolve: PublicFile['resolve']): string | null {
  const stated = schema['type'];
  const [first] = (Array.isArray(stated) ? stated : [stated]).filter((one) => one !== 'null');
  if (typeof first === 'string') return first;
  if (isJsonObject(schema['properties'] ?? null)) return 'object';
  for (const name of ['allOf', 'oneOf', 'anyOf']) {
    const list = schema[name];
    const types = Array.isArray(list) ? list.map((one) => typeOf(resolve(one), resolve)) : [];
    // Values of several types would not fit a column of one of them.
    const known = new Set(types.filter((one) => one !== null && one !== 'null'));
    if (known.size === 1) return [...known][0] ?? null;
  }
  return null;
}

function textFor(schema: JsonObject, whole: number): string {
  const date = new Date(1_700_000_000_000 + whole * 60_000).toISOString();
  if (schema['format'] === 'date-time') return date;
  if (schema['format'] === 'date') return date.slice(0, 10);
  return [`text ${whole}`, `tèxt "${whole}"`, `line\n${whole}`, ''][whole % 4] ?? '';
}
