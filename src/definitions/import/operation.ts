import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { isReservedName } from '../read-yaml.ts';
import type { PlaceFile } from '../upstream/upstream-file.ts';
import { listIn, objectIn, oneLine, partIn, prefix, textIn, wordsOf, type Schemas } from './schemas.ts';

export type Operation = ReturnType<typeof readOperation>;

/** The place of the records in an answer. */
type RecordPlace = ReturnType<typeof recordPlaces>[number];

interface RawOperation {
  readonly path: string;
  readonly method: string;
  readonly entity: string;
  readonly action: string;
  readonly operation: JsonObject;
  /** The members that all operations of a path share. */
  readonly shared: JsonObject;
}

export function readOperation(raw: RawOperation, schemas: Schemas) {
  const { operation, shared, entity, action } = raw;
  const own = [...listIn(shared, 'parameters'), ...listIn(operation, 'parameters')];
  const declared = own.map((one) => schemas.resolve(one));
  const isCookie = (one: JsonObject): boolean => textIn(one, 'in') === 'cookie';
  const body = requestBodyOf(objectIn(operation, 'requestBody'), schemas);
  const path = textIn(operation, `${prefix}path-override`, 'path') ?? raw.path;
  const isDeclared = (name: string): boolean =>
    declared.some((one) => textIn(one, 'in') === 'path' && textIn(one, 'name') === name);
  const undeclared = [...path.matchAll(/\{([^{}]+)\}/g)].flatMap(([, name = '']) =>
    isDeclared(name) ? [] : [{ name, in: 'path' }],
  );
  const sent = [...declared.filter((one) => !isCookie(one)), ...undeclared];
  const stated = sent.map((one) => readParameter(one, schemas));
  const named = new Map([...stated, ...body.params].map((param) => [`${param.place} ${param.name}`, param]));
  const answer = answerSchema(operation, schemas);
  const extractor = textIn(operation, `${prefix}record-extractor`);
  const places = extractor === null ? recordPlaces(answer, schemas) : [];
  return {
    entity,
    action,
    method: raw.method.toUpperCase(),
    path,
    params: [...named.values()],
    body,
    answer,
    extractor,
    /** Where the file names no place: the first of `places`. */
    records: extractor === null ? (places[0] ?? null) : statedPlace(extractor, answer, schemas),
    /** Possible places of the records, if the file names none. */
    places,
    metadata: readMetadata(objectIn(operation, `${prefix}meta-extractor`)),
    description: oneLine(textIn(operation, 'description') ?? textIn(operation, 'summary') ?? '', 1000),
    /** The reason in the file why the listing has one page. */
    onePage: textIn(operation, `${prefix}no-pagination`),
    filter: textIn(operation, `${prefix}record-filter`),
    transform: partIn(operation, `${prefix}record-transform`) ?? null,
    isPreferred: partIn(operation, `${prefix}preferred-for-check`) === true,
    needsCookie: declared.some((one) => isCookie(one) && partIn(one, 'required') === true),
    isDeprecated: partIn(operation, 'deprecated') === true,
    /** Security requirements of the operation itself; null: those of the whole file apply. */
    security: Array.isArray(partIn(operation, 'security')) ? listIn(operation, 'security') : null,
    hasOwnServers: listIn(operation, 'servers').length > 0 || listIn(shared, 'servers').length > 0,
  };
}

/** The schema of the JSON that a success has. */
export function answerSchema(operation: JsonObject, schemas: Schemas): JsonObject {
  const answers = Object.entries(objectIn(operation, 'responses')).filter(([status]) =>
    status.startsWith('2'),
  );
  const contents = answers.flatMap(([, answer]) =>
    Object.entries(objectIn(schemas.resolve(answer), 'content')),
  );
  const json = contents.find(([type]) => /\bjson\b|^\*\/\*/.test(type));
  return schemas.resolve(partIn(json?.[1], 'schema'));
}

const extractorForm = /^\$((?:\.[A-Za-z_][\w-]*)*)(\[\*\])?((?:\.[A-Za-z_][\w-]*)*)$/;

/** Null where the extractor is of a form that is not known. */
function statedPlace(extractor: string, answer: JsonObject, schemas: Schemas): RecordPlace | null {
  const [whole, before = '', star, behind = ''] = extractorForm.exec(extractor) ?? [];
  if (whole === undefined || (star === undefined && behind !== '')) return null;
  const path = before.split('.').slice(1);
  const wrapped = behind.split('.').slice(1);
  const found = schemas.at(answer, path) ?? {};
  const element = schemas.items(found);
  const isOne = star === undefined && schemas.typeOf(found) === 'object';
  const record = isOne ? found : (schemas.at(element, wrapped) ?? {});
  // Where elements are arrays, all their elements are records.
  const isArray = wrapped.length > 0 && schemas.typeOf(record) === 'array';
  return { path, wrapped, isOne, record: isArray ? schemas.items(record) : record };
}

/** Objects around the records of an answer. */
const mostLevels = 3;
const mostPlaces = 20;

/** The answer itself, or the arrays of objects in it; once a level has some, deeper arrays belong to records. */
export function recordPlaces(answer: JsonObject, schemas: Schemas) {
  const place = (path: readonly string[], found: JsonObject) => ({
    /** Names to the array, or to the one object; empty: the answer is it. */
    path,
    /** Names within an element of the array to its record. */
    wrapped: [] as readonly string[],
    /** The answer holds one object in place of an array. */
    isOne: false,
    /** Schema of a record. */
    record: schemas.items(found),
  });
  if (schemas.typeOf(answer) === 'array') return [place([], answer)];
  let level: readonly (readonly [readonly string[], JsonObject])[] = [[[], answer]];
  for (let depth = 0; depth < mostLevels; depth += 1) {
    const members = level.flatMap(([path, schema]) =>
      [...schemas.properties(schema)].map(([name, member]) => [[...path, name], member] as const),
    );
    const arrays = members.filter(
      ([, member]) =>
        schemas.typeOf(member) === 'array' && schemas.typeOf(schemas.items(member)) === 'object',
    );
    if (arrays.length > 0) return arrays.slice(0, mostPlaces).map(([path, schema]) => place(path, schema));
    level = members.filter(([, member]) => schemas.typeOf(member) === 'object').slice(0, mostPlaces);
  }
  return [];
}

/** Names that a definition can follow: `meta.next_cursor`. */
export function isPath(text: string): boolean {
  return /^[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*$/.test(text);
}

/** Keys of `connector_metadata` and where the service's answer has them; forms that are not known are left out. */
function readMetadata(extractor: JsonObject): ReadonlyMap<string, PlaceFile> {
  return new Map(
    Object.entries(extractor).flatMap(([key, place]): readonly (readonly [string, PlaceFile])[] => {
      const text = typeof place === 'string' ? place : '';
      const header = /^@header\.([A-Za-z0-9-]+)$/.exec(text)?.[1];
      if (header !== undefined) return [[key, { header }]];
      if (text === '@link.next') return [[key, { header: 'Link' }]];
      const path = text.replace(/^\$\./, '');
      return path !== text && isPath(path) ? [[key, { path }]] : [];
    }),
  );
}

export type Parameter = ReturnType<typeof readParameter>;

function readParameter(param: JsonObject, schemas: Schemas) {
  const sent = textIn(param, 'name') ?? '';
  const schema = schemas.resolve(partIn(param, 'schema'));
  const stated = textIn(param, 'in');
  const place = stated === 'path' || stated === 'header' || stated === 'body' ? stated : 'query';
  const isFilled = partIn(param, `${prefix}param-config-inject`) !== undefined;
  const type = schemas.typeOf(schema);
  return {
    /** The name in a definition. */
    name: declarable(sent),
    /** The name that the service uses: `page[cursor]`. */
    sent,
    place,
    type: type === 'any' ? 'string' : type,
    isRequired: place === 'path' || partIn(param, 'required') === true,
    schema,
    description: oneLine(textIn(param, 'description') ?? textIn(schema, 'description') ?? '', 1000),
    /** Undefined where the file gives none. An object without one has the defaults of its members. */
    fallback: isFilled ? undefined : fallbackOf(schemas, schema),
    /** How an array is written in a query. */
    list: partIn(param, 'explode') === false ? 'comma' : 'repeat',
    /** An object spread over a query: `created[gte]=1`. */
    isSpread: textIn(param, 'style') === 'deepObject',
    /** An API fills it from the connector's settings. */
    isFilled,
  } as const;
}

const paramName = /^[A-Za-z$][A-Za-z0-9_.$[\]-]{0,63}$/;

export function declarable(name: string): string {
  if (isReservedName(name)) return `${wordsOf(name).join('_')}_`;
  return paramName.test(name) ? name : wordsOf(name).join('_').slice(0, 64);
}

/** Objects within objects of a body; defaults that lie deeper are not found. */
const mostBodyLevels = 20;

/** The value of an object parameter that is sent by default: its own default, or the defaults of its members. */
function fallbackOf(schemas: Schemas, schema: JsonObject): JsonValue | undefined {
  // Visits each schema once, also one that contains itself.
  const known = new Map<JsonObject, JsonValue | undefined>();
  const find = (one: JsonObject, level: number): JsonValue | undefined => {
    if (known.has(one) || level > mostBodyLevels) return known.get(one);
    known.set(one, undefined);
    const found = ofMembers(one, level);
    known.set(one, found);
    return found;
  };
  const ofMembers = (one: JsonObject, level: number): JsonValue | undefined => {
    const own = partIn(one, 'default');
    const isEmpty = isJsonObject(own) && Object.keys(own).length === 0;
    if (own !== undefined && own !== null && !isEmpty) return own;
    const members = [...schemas.properties(one)].flatMap(([name, member]) => {
      const value = find(member, level + 1);
      return value === undefined ? [] : [[name, value] as const];
    });
    if (members.length > 0) return Object.fromEntries(members);
    return own === null ? undefined : own;
  };
  return find(schema, 0);
}

/** Reads the body of a request. `problem`: why this program cannot send it. */
function requestBodyOf(body: JsonObject, schemas: Schemas) {
  const none = { params: [] as readonly Parameter[], problem: null as string | null };
  const kind = objectIn(body, `${prefix}body-type`);
  if (Object.keys(kind).length > 0) {
    return {
      ...none,
      problem: `its body is of the type ${oneLine(textIn(kind, 'type') ?? 'unknown', 40)}, not JSON`,
    };
  }
  const content = Object.entries(objectIn(body, 'content'));
  const json = content.find(([type]) => /^application\/json\b/.test(type));
  if (json === undefined) {
    const type = oneLine(content[0]?.[0] ?? '', 60);
    return content.length === 0 ? none : { ...none, problem: `its body is ${type}, not JSON` };
  }
  const schema = schemas.resolve(partIn(json[1], 'schema'));
  const required = schemas.required(schema);
  const params = [...schemas.properties(schema)].map(([name, property]) =>
    readParameter({ name, in: 'body', schema: property, required: required.has(name) }, schemas),
  );
  // Defaults in the elements of an array have no place in a request.
  const nested = params.find(
    (one) =>
      partIn(one.schema, 'default') === undefined &&
      fallbackOf(schemas, schemas.items(one.schema)) !== undefined,
  );
  const problem = nested === undefined ? null : `its body has defaults within the elements of ${nested.name}`;
  return { params, problem };
}
