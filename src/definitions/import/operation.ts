import type { JsonObject } from '../../core/json.ts';
import type { PlaceFile } from '../upstream/upstream-file.ts';
import { readParameter } from './parameter.ts';
import { listIn, objectIn, oneLine, partIn, prefix, textIn } from './parts.ts';
import { requestBodyOf } from './request-body.ts';
import type { Schemas } from './schemas.ts';

export type Operation = ReturnType<typeof readOperation>;

/** Where the records of an answer are. */
export interface RecordPlace {
  /** Names to the array, or to the one object; empty: the answer is it. */
  readonly path: readonly string[];
  /** Names within an element of the array to its record. */
  readonly wrapped: readonly string[];
  /** The answer holds one object in place of an array. */
  readonly isOne: boolean;
  /** The file names no place, and the answer has one array only. */
  readonly isFound: boolean;
  /** Schema of a record. */
  readonly record: JsonObject;
}

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
  const stated = declared
    .filter((one) => !isCookie(one))
    .map((one) => readParameter(one, schemas, body.variables));
  const named = new Map([...stated, ...body.params].map((param) => [`${param.place} ${param.name}`, param]));
  const answer = answerSchema(operation, schemas);
  const extractor = textIn(operation, `${prefix}record-extractor`);
  return {
    entity,
    action,
    method: raw.method.toUpperCase(),
    path: textIn(operation, `${prefix}path-override`, 'path') ?? raw.path,
    params: [...named.values()],
    body,
    answer,
    extractor,
    records: recordPlace(extractor, answer, schemas),
    /** Where records could be, if the file names no place and the answer has several arrays. */
    places: extractor === null ? recordPlaces(answer, schemas) : [],
    metadata: readMetadata(objectIn(operation, `${prefix}meta-extractor`)),
    description: oneLine(textIn(operation, 'description') ?? textIn(operation, 'summary') ?? '', 1000),
    /** Why the file says that the listing has one page. */
    onePage: textIn(operation, `${prefix}no-pagination`),
    filter: textIn(operation, `${prefix}record-filter`),
    transform: partIn(operation, `${prefix}record-transform`) ?? null,
    isPreferred: partIn(operation, `${prefix}preferred-for-check`) === true,
    needsCookie: declared.some((one) => isCookie(one) && partIn(one, 'required') === true),
    isDeprecated: partIn(operation, 'deprecated') === true,
    /** What the operation itself says of it; null: what holds for the whole file. */
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

/** Null where the extractor is of a form that is not known, or the answer shows no place. */
function recordPlace(extractor: string | null, answer: JsonObject, schemas: Schemas): RecordPlace | null {
  if (extractor === null) return placeFound(answer, schemas);
  const [whole, before = '', star, behind = ''] = extractorForm.exec(extractor) ?? [];
  if (whole === undefined || (star === undefined && behind !== '')) return null;
  const path = before.split('.').slice(1);
  const wrapped = behind.split('.').slice(1);
  const found = schemas.at(answer, path) ?? {};
  const element = schemas.items(found);
  const isOne = star === undefined && schemas.typeOf(found) === 'object';
  const record = isOne ? found : (schemas.at(element, wrapped) ?? {});
  return { path, wrapped, isOne, isFound: false, record: unwrapped(record, wrapped, schemas) };
}

/** Of elements that are arrays: all their elements are records. */
function unwrapped(record: JsonObject, wrapped: readonly string[], schemas: Schemas): JsonObject {
  return wrapped.length > 0 && schemas.typeOf(record) === 'array' ? schemas.items(record) : record;
}

function placeFound(answer: JsonObject, schemas: Schemas): RecordPlace | null {
  const [only, ...others] = recordPlaces(answer, schemas);
  return only === undefined || others.length > 0 ? null : only;
}

/** Objects around the records of an answer. */
const mostLevels = 3;
const mostPlaces = 20;

/** The answer itself, or the arrays of objects in it; where one level has some, what lies deeper belongs to records. */
export function recordPlaces(answer: JsonObject, schemas: Schemas): readonly RecordPlace[] {
  const place = (path: readonly string[], found: JsonObject): RecordPlace => {
    const record = schemas.items(found);
    return { path, wrapped: [], isOne: false, isFound: true, record };
  };
  if (schemas.typeOf(answer) === 'array') return [{ ...place([], answer), isFound: false }];
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

/** Keys of `connector_metadata` and where the service's answer has them; forms that are not known are left out. */
function readMetadata(extractor: JsonObject): ReadonlyMap<string, PlaceFile> {
  return new Map(
    Object.entries(extractor).flatMap(([key, place]): readonly (readonly [string, PlaceFile])[] => {
      const text = typeof place === 'string' ? place : '';
      const header = /^@header\.([A-Za-z0-9-]+)$/.exec(text)?.[1];
      if (header !== undefined) return [[key, { header }]];
      if (text === '@link.next') return [[key, { header: 'Link' }]];
      const path = /^\$((?:\.[A-Za-z_][\w-]*)+)$/.exec(text)?.[1];
      return path === undefined ? [] : [[key, { path: path.slice(1) }]];
    }),
  );
}
