import type { JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { FieldDrift, JsonType } from '../../core/records.ts';
import { otherFields, type SchemaPolicy } from './schema-policy.ts';

/** Longer names are cut, in what is noted of them. */
const maxNameChars = 200;
/** Names told apart in a run; a service that makes up a name for every record fills no memory. */
const maxNames = 1_000;

/**
 * Makes the function that says what is to be noted of a field. The same field and type give the very same object, so that a
 * page's notes can be told apart by identity and cost nothing but a look.
 */
export function driftNotes(
  entity: EntityName,
  { onNews, isKnown }: SchemaPolicy,
): (name: string, kind: FieldDrift['kind'], value: JsonValue) => FieldDrift {
  type NoteByType = Partial<Record<JsonType, FieldDrift>>;
  const notesByName = new Map<string, NoteByType>();
  const others: Readonly<Record<FieldDrift['kind'], NoteByType>> = { undeclared: {}, misfit: {} };

  function notesOf(name: string, kind: FieldDrift['kind']): NoteByType {
    const known = notesByName.get(name);
    if (known !== undefined) return known;
    if (notesByName.size >= maxNames) return others[kind];
    const notes: NoteByType = {};
    notesByName.set(name, notes);
    return notes;
  }

  return (name, kind, value) => {
    const type = jsonTypeOf(value);
    const notes = notesOf(name, kind);
    const note = notes[type];
    if (note !== undefined) return note;
    const field = notes === others[kind] ? otherFields : noteName(name);
    const drift: FieldDrift = { entity, field, kind, type };
    return (notes[type] = onNews === 'accept' || isKnown(drift) ? drift : { ...drift, isRefused: true });
  };
}

/** A ledger holds no lone surrogate: noted as it is, the name would come back as another one. */
function noteName(name: string): string {
  return name.slice(0, maxNameChars).toWellFormed();
}

/** As the value's JSON text reads: a number of more than 21 digits is written with an exponent. */
export function jsonTypeOf(value: JsonValue): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'object') return 'object';
  if (typeof value === 'bigint') return 'integer';
  if (typeof value !== 'number') return typeof value === 'string' ? 'string' : 'boolean';
  return Number.isInteger(value) && Math.abs(value) < 1e21 && !Object.is(value, -0) ? 'integer' : 'number';
}
