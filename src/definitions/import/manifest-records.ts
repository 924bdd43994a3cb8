import type { JsonObject, JsonValue } from '../../core/json.ts';
import { callsIn, expressionText, rootsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { refuse, unlessRefused, type Setting } from './manifest-settings.ts';
import { fixedTexts, needed, sentBy } from './manifest-request.ts';
import { columnName, listIn, objectIn, openSchemas, partIn, plainText, type FieldType } from './schemas.ts';

/** A value of a record, as a definition reaches it. */
export type Reached =
  /** `path`: dotted place within a field; null: the value is the field. */
  | { readonly kind: 'field'; readonly name: string; readonly type: FieldType; readonly path: string | null }
  | { readonly kind: 'partition'; readonly name: string; readonly above: number }
  | { readonly kind: 'bound'; readonly bound: 'from' | 'to' }
  /** The same in every record of a connector. */
  | { readonly kind: 'constant' }
  /** Another one in every run, or a hash of the record. */
  | { readonly kind: 'madeUp' }
  | { readonly kind: 'other'; readonly why: string; readonly at: Component };

export type Records = ReturnType<typeof readRecords>;

const mostFields = 1_000;
const { typeOf } = openSchemas({});

/** Reads the fields of a stream's records, and what its transformations make of them. */
export function readRecords(stream: Component) {
  const schema = schemaOf(stream);
  const { fields, rename } = readFields(schema);
  const added = new Map<string, Added>();
  const changes = stream.parts('transformations');
  for (const one of changes) {
    if (one.kind === 'AddFields') {
      for (const field of one.parts('fields')) {
        const path = listIn(field.get('path')).map(plainText).join('.');
        added.set(path, { value: field.expression('value') ?? { kind: 'value', value: null }, at: one });
      }
    } else if (!/^(?:custom|Keys.*|RemoveFields|FlattenFields|DpathFlattenFields)$/.test(one.kind)) {
      refuse('a transformation of this type', one);
    }
  }
  const changed = changes.find(({ kind }) => kind === 'custom');
  const renamed = changes.find(({ kind }) => kind.startsWith('Keys'));
  const column = (path: readonly string[]): Reached => {
    const [first = '', ...rest] = path;
    const known = fields.get(first);
    if (rest.length === 0 && known !== undefined) return { kind: 'field', ...known, path: null };
    const name = columnName(path.join('_'));
    const dotted = path.join('.');
    if (name === null) {
      const what = rest.length > 0 ? 'path' : 'field';
      return { kind: 'other', why: `a ${what} that no column can be named after (${dotted})`, at: stream };
    }
    if (rest.length > 0) {
      const inner = path.reduce<JsonValue | undefined>(
        (one, step) => partIn(one, 'properties', step),
        schema,
      );
      return { kind: 'field', name, type: typeOf(inner), path: dotted };
    }
    if (name !== first) rename.set(first, name);
    fields.set(first, { name, type: 'any' });
    return { kind: 'field', name, type: 'any', path: null };
  };
  return {
    fields,
    rename,
    /** Where the value at a path of a record is. `role`: what it is needed for. */
    reach: (path: readonly string[], role: string): Reached => {
      const place = path.join('.');
      const made = added.get(place);
      if (changed !== undefined) {
        return { kind: 'other', why: `custom code that may change the ${role}`, at: changed };
      }
      if (made !== undefined) return reachAdded(made, place, column);
      return renamed !== undefined && /[^a-z]/.test(place)
        ? { kind: 'other', why: `fields that are renamed, the ${role} ${place} among them`, at: renamed }
        : column(path);
    },
    /** The field that only holds this value of the partition. */
    nameOfPartition: (partition: string): string => {
      const isOf = ({ value }: Added): boolean =>
        value.kind === 'path' && value.root === 'slice' && value.steps.join('.') === partition;
      return [...added].find(([, one]) => isOf(one))?.[0] ?? '';
    },
    /** The column of a field, which is declared where the file does not, or the dotted path in it. */
    columnAt: ([first = '', ...rest]: readonly string[]): string => {
      const found = column([first]);
      return [found.kind === 'field' ? found.name : first, ...rest].join('.');
    },
    /** Sets the type of a field for which the file has none. */
    declare: (sent: string, type: FieldType): void => {
      const known = fields.get(sent);
      if (known?.type === 'any') fields.set(sent, { ...known, type });
    },
  };
}

/** A value that the file adds to a record after it was read. */
interface Added {
  readonly value: Expression;
  readonly at: Component;
}

function reachAdded(
  { value, at }: Added,
  place: string,
  column: (path: readonly string[]) => Reached,
): Reached {
  if (value.kind === 'path' && value.root === 'record') {
    const path = value.steps.map(String);
    const found = column(path);
    const isPath = found.kind === 'field' && path.length > 1;
    return isPath ? { ...found, name: columnName(place) ?? found.name } : found;
  }
  if (value.kind === 'value' || (value.kind === 'path' && value.root === 'config')) {
    return { kind: 'constant' };
  }
  if (callsIn(value).some((name) => madeUp.test(name))) return { kind: 'madeUp' };
  const sent = unlessRefused(
    () => sentBy(value, at),
    () => null,
  );
  if (sent?.kind === 'partition' && sent.part === null) return sent;
  if (sent?.kind === 'bound') return sent;
  if (sent?.kind === 'setting') return { kind: 'constant' };
  return { kind: 'other', why: `the field ${place}, which is computed (${expressionText(value)})`, at };
}

/** Functions that give another value in every run, or a hash of the record. */
const madeUp = /^(?:now_utc|today_utc|hash|day_delta)$/;

function schemaOf(stream: Component): JsonObject {
  const loader = stream.part('schema_loader') ?? stream.parts('schema_loader')[0];
  return loader?.type === 'InlineSchemaLoader' ? objectIn(loader.get('schema')) : {};
}

/** The columns of the fields, by the names that the service gives them. */
function readFields(schema: JsonObject) {
  const properties = Object.entries(objectIn(schema, 'properties')).slice(0, mostFields);
  const sent = new Set(properties.map(([name]) => name));
  const fields = new Map<string, { readonly name: string; readonly type: FieldType }>();
  const rename = new Map<string, string>();
  const taken = new Set<string>();
  for (const [name, property] of properties) {
    const column = columnName(name);
    // A field that has its name already keeps it.
    if (column === null || taken.has(column) || (column !== name && sent.has(column))) continue;
    taken.add(column);
    fields.set(name, { name: column, type: typeOf(property) });
    if (column !== name) rename.set(name, column);
  }
  return { fields, rename };
}

/** Reads where an answer has its records. `text`: the path without what follows the first wildcard's object. */
export function readPlace(selector: Component) {
  const extractor = needed(selector, 'extractor', 'DpathExtractor', 'an extractor of this type');
  const path = fixedTexts(extractor, 'field_path');
  if (path.some((name) => name.includes('.'))) {
    refuse('a place of the records with a dot in a name', extractor);
  }
  const wildcards = path.filter((name) => name === '*').length;
  const isLast = path.at(-1) === '*';
  if (isLast && wildcards === 1) {
    const text = path.slice(0, -1).join('.');
    const open = `write the path alone, ${JSON.stringify(text)}, if the answer has an array there and no object`;
    return { records: { path: text, map: true }, text, open };
  }
  if (wildcards > 2 || (wildcards === 2 && !isLast)) {
    refuse('a place of the records with several wildcards', extractor);
  }
  const text = path.join('.').replaceAll('.*', '[*]').replace(/^\*/, '[*]');
  return { records: text, text, open: null };
}

/**
 * Reads a filter as conditions that all hold, and adds the settings that they use. One by time is left out: more is
 * read, never less.
 */
export function readFilter(selector: Component, records: Records, used: Setting[]): readonly JsonObject[] {
  const filter = selector.part('record_filter');
  if (filter !== null && filter.kind !== 'RecordFilter') refuse('a filter of this type', filter);
  const condition = filter?.expression('condition') ?? null;
  if (filter === null || condition === null) return [];
  const computed = (part: Expression): never =>
    refuse(`a filter that is computed (${expressionText(part)})`, filter);
  /** The field of a record, or the dotted path in one. */
  const fieldOf = (left: Expression): string => {
    if (left.kind !== 'path' || left.root !== 'record') return computed(left);
    const path = left.steps.map(String);
    const { kind } = records.reach(path, 'filter');
    return kind === 'field' ? records.columnAt(path) : refuse('a filter of a field that is computed', filter);
  };
  /** A condition of a definition; null: it only compares times. */
  const conditionOf = (part: Expression): JsonObject | null => {
    if (isByTime(part)) return null;
    if (part.kind === 'path') return { field: fieldOf(part), value: true };
    const [left, right] = 'parts' in part ? part.parts : [];
    if (left === undefined || !('name' in part)) return computed(part);
    if (part.kind === 'not') {
      const inner = conditionOf(left);
      return inner?.['not'] === true ? computed(part) : inner && { ...inner, not: true };
    }
    if (part.kind === 'or') {
      const all = part.parts.map((one) => conditionOf(one) ?? {});
      const values = all.flatMap((one) => (one['not'] === true ? [] : (one['value'] ?? [])));
      const field = all[0]?.['field'] ?? '';
      return values.length === all.length && all.every((one) => one['field'] === field)
        ? { field, values }
        : computed(part);
    }
    const isEquality = part.kind === 'compare' && /^(?:[!=]=|(?:not )?in)$/.test(part.name);
    if (!isEquality || right === undefined) return computed(part);
    const field = fieldOf(left);
    const not = /!|not/.test(part.name) ? { not: true } : {};
    if (right.kind === 'path' && right.root === 'config') {
      const setting = filter.settings.at(right.steps, filter);
      used.push(setting);
      return { field, setting: setting.name, ...not };
    }
    const isList = part.name.endsWith('in');
    const given = right.kind !== 'value' ? [] : isList ? listIn(right, 'value') : [right.value];
    const [value, ...more] = given.filter((one) => /^(?:string|number|boolean)$/.test(typeof one));
    if (value === undefined) return computed(part);
    return { field, ...(isList ? { values: [value, ...more] } : { value }), ...not };
  };
  const parts = condition.kind === 'and' ? condition.parts : [condition];
  return parts.map(conditionOf).filter((part) => part !== null);
}

/** A comparison with a time of the run, of the state or of the connector. */
function isByTime(part: Expression): boolean {
  if (part.kind === 'and' || part.kind === 'or' || part.kind === 'not') return part.parts.every(isByTime);
  if (part.kind !== 'compare' || !/^[<>]=?$/.test(part.name)) return false;
  const roots = [...rootsOf(part)].filter((root) => root !== 'record');
  return roots.length > 0 && roots.every((root) => /^(?:slice|state|config|clock)$/.test(root));
}
