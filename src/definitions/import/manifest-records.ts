import type { JsonObject, JsonValue } from '../../core/json.ts';
import { expressionText, rootsOf, type Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { fixedTexts } from './manifest-paging.ts';
import { refuse, Refusal, sentBy, type Setting, type Settings } from './manifest-values.ts';
import { columnName, listIn, objectIn, partIn, plainText, type FieldType } from './schemas.ts';

/** A field of a record: the name of its column, and its type where the file says one. */
interface Field {
  readonly name: string;
  readonly type: FieldType;
}

/** A value that the file adds to a record after it was read. */
type Added = { readonly value: Expression; readonly at: Component };

/** A value of a record, as a definition reaches it. */
export type Reached =
  /** `path`: dotted, where it is not a field of its own. */
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

/** Reads the fields of a stream's records, and what its transformations make of them. */
export function readRecords(stream: Component, settings: Settings) {
  const { fields, rename } = readFields(stream);
  const added = new Map<string, Added>();
  let changed: Component | null = null;
  let renamed: Component | null = null;
  for (const one of stream.parts('transformations')) {
    if (one.isCustom) changed ??= one;
    else if (one.type === 'AddFields') {
      for (const field of one.parts('fields')) {
        const path = listIn(field.get('path')).map(plainText).join('.');
        added.set(path, { value: field.expression('value') ?? { kind: 'value', value: null }, at: one });
      }
    } else if (/^Keys(?:ToLower|ToSnakeCase|Replace)$/.test(one.type)) renamed ??= one;
    else if (!/^(?:RemoveFields|FlattenFields|DpathFlattenFields)$/.test(one.type)) {
      refuse('a transformation of this type', one);
    }
  }
  /** Where the value at a path of a record is. `role`: what it is needed for. */
  const reach = (path: readonly string[], role: string): Reached => {
    const place = path.join('.');
    if (changed !== null) {
      return { kind: 'other', why: `custom code that may change the ${role}`, at: changed };
    }
    const made = added.get(place);
    if (made !== undefined) return reachAdded(made, place, settings, column);
    if (renamed !== null && /[^a-z]/.test(place)) {
      return { kind: 'other', why: `fields that are renamed, the ${role} ${place} among them`, at: renamed };
    }
    return column(path);
  };
  const column = (path: readonly string[]): Reached => {
    const [first = ''] = path;
    const dotted = path.join('.');
    if (path.length > 1) {
      const name = columnName(path.join('_'));
      if (name === null) {
        return { kind: 'other', why: `a path that no column can be named after (${dotted})`, at: stream };
      }
      return { kind: 'field', name, type: typeAt(stream, path), path: dotted };
    }
    const known = fields.get(first);
    if (known !== undefined) return { kind: 'field', ...known, path: null };
    const name = columnName(first);
    if (name === null) {
      return { kind: 'other', why: `a field that no column can be named after (${first})`, at: stream };
    }
    if (name !== first) rename.set(first, name);
    fields.set(first, { name, type: 'any' });
    return { kind: 'field', name, type: 'any', path: null };
  };
  return {
    fields,
    rename,
    reach,
    /** The field that only holds this value of the partition. */
    nameOfPartition: (partition: string): string | null => {
      for (const [place, { value }] of added) {
        if (value.kind === 'path' && value.root === 'slice' && value.steps.join('.') === partition) {
          return place;
        }
      }
      return null;
    },
    /** The column of a field, which is declared where the file does not. */
    columnOf: (sent: string): string => {
      const found = column([sent]);
      return found.kind === 'field' ? found.name : sent;
    },
    /** Sets the type of a field for which the file has none. */
    declare: (sent: string, type: FieldType): void => {
      const known = fields.get(sent);
      if (known?.type === 'any') fields.set(sent, { ...known, type });
    },
  };
}

function reachAdded(
  { value, at }: Added,
  place: string,
  settings: Settings,
  column: (path: readonly string[]) => Reached,
): Reached {
  if (value.kind === 'path' && value.root === 'record') {
    const path = value.steps.map(String);
    const found = column(path);
    if (found.kind !== 'field' || path.length === 1) return found;
    return { ...found, name: columnName(place) ?? found.name };
  }
  if (value.kind === 'value' || (value.kind === 'path' && value.root === 'config')) {
    return { kind: 'constant' };
  }
  if (holdsCall(value, /^(?:now_utc|today_utc|hash|day_delta)$/)) return { kind: 'madeUp' };
  try {
    const sent = sentBy(value, settings, at);
    if (sent.kind === 'partition' && sent.part === null) {
      return { kind: 'partition', name: sent.name, above: sent.above };
    }
    if (sent.kind === 'bound') return { kind: 'bound', bound: sent.bound };
    if (sent.kind === 'setting') return { kind: 'constant' };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  return { kind: 'other', why: `the field ${place}, which is computed (${expressionText(value)})`, at };
}

function holdsCall(value: Expression, names: RegExp): boolean {
  if (value.kind === 'call' && names.test(value.name)) return true;
  return 'parts' in value && value.parts.some((part) => holdsCall(part, names));
}

function schemaOf(stream: Component): JsonObject {
  const loader = stream.part('schema_loader') ?? stream.parts('schema_loader')[0] ?? null;
  return loader?.type === 'InlineSchemaLoader' ? objectIn(loader.get('schema')) : {};
}

function readFields(stream: Component) {
  const properties = Object.entries(objectIn(schemaOf(stream), 'properties')).slice(0, mostFields);
  const sent = new Set(properties.map(([name]) => name));
  const taken = new Set<string>();
  const fields = new Map<string, Field>();
  const rename = new Map<string, string>();
  for (const [name, schema] of properties) {
    const column = columnName(name);
    // A field that has its name already keeps it.
    if (column === null || taken.has(column) || (column !== name && sent.has(column))) continue;
    taken.add(column);
    fields.set(name, { name: column, type: typeOf(schema) });
    if (column !== name) rename.set(name, column);
  }
  return { fields, rename };
}

function typeAt(stream: Component, path: readonly string[]): FieldType {
  let schema: JsonValue | undefined = schemaOf(stream);
  for (const name of path) schema = partIn(schema, 'properties', name);
  return schema === undefined ? 'any' : typeOf(schema);
}

const fieldTypes: readonly FieldType[] = ['string', 'integer', 'number', 'boolean', 'object', 'array'];

function typeOf(schema: JsonValue): FieldType {
  const stated = partIn(schema, 'type');
  const kinds = (Array.isArray(stated) ? stated : [stated]).filter((one) => one !== 'null');
  const [only, ...others] = kinds;
  return others.length === 0 ? (fieldTypes.find((type) => type === only) ?? 'any') : 'any';
}

// --- The place of the records

interface RecordsFound {
  readonly records: JsonValue;
  readonly text: string;
  readonly open: string | null;
  readonly needs: readonly Need[];
}

/** Reads where an answer has its records. */
export function readPlace(selector: Component): RecordsFound {
  const extractor = selector.part('extractor') ?? refuse('a selector without an extractor', selector);
  if (extractor.isCustom || extractor.type !== 'DpathExtractor') {
    refuse('an extractor of this type', extractor);
  }
  const path = fixedTexts(extractor, 'field_path');
  if (path.some((name) => name.includes('.'))) {
    refuse('a place of the records with a dot in a name', extractor);
  }
  const found = { open: null, needs: [] };
  const wildcards = path.filter((name) => name === '*').length;
  if (wildcards === 0) return { ...found, records: path.join('.'), text: path.join('.') };
  const isLast = path.at(-1) === '*';
  if (isLast && wildcards === 1) {
    const place = path.slice(0, -1).join('.');
    const open = `write the path alone, ${JSON.stringify(place)}, if the answer has an array there and no object`;
    return { records: { path: place, map: true }, text: place, open, needs: ['recordMaps'] };
  }
  const text = path.join('.').replaceAll('.*', '[*]').replace(/^\*/, '[*]');
  if (wildcards === 1) return { ...found, records: text, text };
  if (wildcards === 2 && isLast) return { ...found, records: text, text, needs: ['twoWildcards'] };
  return refuse('a place of the records with several wildcards', extractor);
}

// --- Filters

interface Filters {
  readonly only: readonly JsonObject[];
  readonly used: readonly Setting[];
}

/** Reads a filter as conditions that all hold. One by time is left out: more is read, never less. */
export function readFilter(selector: Component, records: Records, settings: Settings): Filters {
  const filter = selector.part('record_filter');
  if (filter === null) return { only: [], used: [] };
  if (filter.isCustom || filter.type !== 'RecordFilter') refuse('a filter of this type', filter);
  const condition = filter.expression('condition');
  if (condition === null) return { only: [], used: [] };
  const used: Setting[] = [];
  const parts = condition.kind === 'and' ? condition.parts : [condition];
  const only = parts
    .map((part) => conditionOf(part, { filter, records, settings, used }))
    .filter((part) => part !== null);
  return { only, used };
}

interface Filtering {
  readonly filter: Component;
  readonly records: Records;
  readonly settings: Settings;
  readonly used: Setting[];
}

/** A condition of a definition; null: it only compares times. */
function conditionOf(part: Expression, filtering: Filtering): JsonObject | null {
  const { filter, records, settings, used } = filtering;
  if (isByTime(part)) return null;
  const computed = (): never => refuse(`a filter that is computed (${expressionText(part)})`, filter);
  if (part.kind === 'not') {
    const inner = conditionOf(part.parts[0], filtering);
    return inner?.['not'] === true ? computed() : inner === null ? null : { ...inner, not: true };
  }
  if (part.kind === 'path') return { field: fieldOf(part, records, filter), value: true };
  if (part.kind === 'or') {
    const all = part.parts.map((one) => conditionOf(one, filtering) ?? {});
    const values = all.flatMap((one) => (one['not'] === true ? [] : (one['value'] ?? [])));
    const field = all[0]?.['field'] ?? '';
    return values.length === all.length && all.every((one) => one['field'] === field)
      ? { field, values }
      : computed();
  }
  if (part.kind !== 'compare' || !/^(?:[!=]=|(?:not )?in)$/.test(part.operator)) return computed();
  const [left, right] = part.parts;
  const field = fieldOf(left, records, filter);
  const not = /!|not/.test(part.operator) ? { not: true } : {};
  if (right.kind === 'path' && right.root === 'config') {
    const setting = settings.at(right.steps, filter);
    used.push(setting);
    return { field, setting: setting.name, ...not };
  }
  if (right.kind !== 'value') return computed();
  const isScalar = (value: JsonValue): boolean => ['string', 'number', 'boolean'].includes(typeof value);
  if (!part.operator.endsWith('in')) {
    return isScalar(right.value) ? { field, value: right.value, ...not } : computed();
  }
  const values = listIn(right, 'value').filter(isScalar);
  return values.length > 0 ? { field, values, ...not } : computed();
}

/** The field of a record that a filter reads, or the dotted path in one. */
function fieldOf(left: Expression, records: Records, filter: Component): string {
  if (left.kind !== 'path' || left.root !== 'record') {
    return refuse(`a filter that is computed (${expressionText(left)})`, filter);
  }
  const [first = '', ...rest] = left.steps.map(String);
  const found = records.reach(rest.length === 0 ? [first] : [first, ...rest], 'filter');
  if (found.kind !== 'field') return refuse('a filter of a field that is computed', filter);
  return [records.columnOf(first), ...rest].join('.');
}

/** A comparison with a time of the run, of the state or of the connector. */
function isByTime(part: Expression): boolean {
  if (part.kind === 'and' || part.kind === 'or' || part.kind === 'not') return part.parts.every(isByTime);
  if (part.kind !== 'compare' || !/^[<>]=?$/.test(part.operator)) return false;
  const roots = [...rootsOf(part)].filter((root) => root !== 'record');
  return roots.length > 0 && roots.every((root) => ['slice', 'state', 'config', 'clock'].includes(root));
}
