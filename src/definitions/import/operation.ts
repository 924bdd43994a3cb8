import type { JsonObject } from '../../core/json.ts';
import type { PlaceFile } from '../upstream/upstream-file.ts';
import { readParameter } from './parameter.ts';
import { listIn, objectIn, partIn, prefix, textIn } from './parts.ts';
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
  const body = requestBodyOf(objectIn(operation, 'requestBody'), schemas);
  const stated = own.map((one) => readParameter(schemas.resolve(one), schemas, body.variables));
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
    metadata: readMetadata(objectIn(operation, `${prefix}meta-extractor`)),
    /** Why the file says that the listing has one page. */
    onePage: textIn(operation, `${prefix}no-pagination`),
    filter: textIn(operation, `${prefix}record-filter`),
    transform: partIn(operation, `${prefix}record-transform`) ?? null,
    isPreferred: partIn(operation, `${prefix}preferred-for-check`) === true,
    hasOwnServers: listIn(operation, 'servers').length > 0 || listIn(shared, 'servers').length > 0,
  };
}

/** The schema of the JSON that a success has. */
function answerSchema(operation: JsonObject, schemas: Schemas): JsonObject {
  const success = Object.entries(objectIn(operation, 'responses')).find(([status]) => status.startsWith('2'));
  const content = objectIn(schemas.resolve(success?.[1]), 'content');
  const json = Object.entries(content).find(([type]) => /\bjson\b/.test(type));
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
  const shared = { wrapped: [], isOne: false };
  if (schemas.typeOf(answer) === 'array') {
    return { ...shared, path: [], isFound: false, record: schemas.items(answer) };
  }
  const arrays = [...schemas.properties(answer)].filter(([, schema]) => schemas.typeOf(schema) === 'array');
  const objects = arrays.filter(([, schema]) => schemas.typeOf(schemas.items(schema)) === 'object');
  const [only] = objects;
  if (objects.length !== 1 || only === undefined) return null;
  return { ...shared, path: [only[0]], isFound: true, record: schemas.items(only[1]) };
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
