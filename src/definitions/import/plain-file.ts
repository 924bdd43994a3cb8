import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { usage } from '../../core/errors.ts';
import { suggestName } from '../suggest-name.ts';
import { answerSchema, recordPlaces } from './operation.ts';
import {
  columnName,
  listIn,
  objectIn,
  partIn,
  prefix,
  singular,
  textIn,
  wordsOf,
  openSchemas,
  type Schemas,
} from './schemas.ts';
import { readOpenApi, serviceOf, uuidOf, type ServiceFile } from './service-file.ts';

/** An operation of a plain file whose answers have a list. */
export interface PlainListing {
  readonly path: string;
  /** A name for the listed records; null: the path gives none. */
  readonly entity: string | null;
  /** Places of arrays of objects in its answer: `data.tickets`; an empty text is the answer itself. */
  readonly records: readonly string[];
  readonly isDeprecated: boolean;
}

type PlainFile = ReturnType<typeof readPlainFile>;

/** Reads the OpenAPI file of any service and its listings. Throws `ProblemsError` DEFINITION_INVALID. */
export function readPlainFile(file: string) {
  const opened = readOpenApi(file, 'an OpenAPI document');
  const schemas = openSchemas(opened.root);
  const gets = Object.entries(objectIn(opened.root, 'paths')).flatMap(([path, item]) => {
    const operation = partIn(schemas.resolve(item), 'get');
    return isJsonObject(operation) ? [{ path, operation }] : [];
  });
  const listings = gets.flatMap(({ path, operation }): readonly PlainListing[] => {
    const answer = answerSchema(operation, schemas);
    const records = recordPlaces(answer, schemas);
    const isArray = schemas.typeOf(answer) === 'array';
    // One record, whose own lists are no entity.
    const isRecord = !isArray && (/\}\/?$/.test(path) || schemas.properties(answer).has('id'));
    if (records.length === 0 || isRecord) return [];
    const isDeprecated = partIn(operation, 'deprecated') === true;
    const places = records.map((place) => place.path.join('.'));
    return [{ path, entity: entityOf(path), records: places, isDeprecated }];
  });
  return { opened, schemas, listings, gets: gets.length };
}

/**
 * Adds entity names for these listings, their parents and the operations that read one record. The file's own OpenAPI
 * declarations supply all other facts that an import needs.
 */
export function plainService(
  { opened, schemas, listings }: PlainFile,
  paths: readonly string[],
): ServiceFile {
  const chosen = withParents(
    paths.map((path) => listingAt(path, listings)),
    listings,
  );
  const { root } = opened;
  const items: Record<string, JsonValue> = {};
  for (const [path, item] of Object.entries(objectIn(root, 'paths'))) {
    const shared = schemas.resolve(item);
    const list = chosen.find((one) => one.path === path);
    const above = chosen.find((one) => isOneOf(path, one.path));
    const operation = objectIn(shared, 'get');
    const named =
      list !== undefined
        ? namedOperation(operation, list.entity, 'list', schemas)
        : above !== undefined && Object.keys(operation).length > 0
          ? namedOperation(operation, above.entity, 'get', schemas)
          : null;
    // Operations that no entity needs are hidden, and stay where references find them.
    items[path] = named === null ? item : { ...shared, get: named };
  }
  const info = withoutOurs(objectIn(root, 'info'));
  const name = serviceName(textIn(info, 'title') ?? '');
  const operations = chosen.map(({ path }) => objectIn(schemas.resolve(partIn(root, 'paths', path)), 'get'));
  const adapted: JsonObject = {
    ...root,
    info: {
      ...info,
      [`${prefix}connector-name`]: name,
      [`${prefix}connector-definition-id`]: uuidOf(`openapi ${name}`),
    },
    servers: plainServers(root),
    components: {
      ...objectIn(root, 'components'),
      securitySchemes: plainSchemes(root, operations, schemas),
    },
    paths: items,
  };
  return serviceOf(opened, adapted, true);
}

/**
 * One address, with names for the parts that a person has to provide: `{address}` for the origin where the file has
 * several or none.
 */
function plainServers(root: JsonObject): readonly JsonValue[] {
  const servers = listIn(root, 'servers');
  const [first] = servers;
  const urls = servers.map((one) => textIn(one, 'url') ?? '');
  const parts = urls.map((url) => /^(https:\/\/[^/{}]+)(\/[^{}]*)?$/.exec(url));
  const [, , path = ''] = parts[0] ?? [];
  if (urls.length > 1 && parts.every((one) => one !== null && (one[2] ?? '') === path)) {
    const origins = [...new Set(parts.map((one) => one?.[1] ?? ''))];
    if (origins.length > 1) return [{ url: `{address}${path}`, variables: { address: { enum: origins } } }];
  }
  if (first !== undefined && /^[a-z]+:\/\/|^\{/i.test(urls[0] ?? '')) return [first];
  return [{ url: `{address}${(urls[0] ?? '').replace(/\/$/, '')}`, variables: { address: {} } }];
}

interface Chosen extends PlainListing {
  readonly entity: string;
}

/** Parses `/tickets`, or `cases=/tickets`: a listing, and optionally the name of its entity. */
function listingAt(text: string, listings: readonly PlainListing[]): Chosen {
  const [, name, path = text] = /^([^/=]*)=(\/.*)$/.exec(text) ?? [];
  const found = listings.find((one) => one.path === path);
  if (found === undefined) {
    const known = listings.map((one) => one.path);
    throw usage(
      `--path: the file has no GET ${JSON.stringify(path.slice(0, 200))} that answers with a list${suggestName(path, known)}. Without --path they are listed.`,
    );
  }
  return { ...found, entity: name ?? found.entity ?? path };
}

/** Adds the listings that fill parameters of the paths: `/users` for `/users/{id}/orders`. */
function withParents(wanted: readonly Chosen[], listings: readonly PlainListing[]): readonly Chosen[] {
  const found = new Map(wanted.map((one) => [one.path, one]));
  for (const { path } of found.values()) {
    for (const one of listings) {
      const isAbove = new RegExp(`^${literal(one.path.replace(/\/$/, ''))}/\\{[^}/]+\\}/`).test(path);
      if (isAbove && !found.has(one.path)) found.set(one.path, { ...one, entity: one.entity ?? one.path });
    }
  }
  const byEntity = new Map<string, string>();
  for (const { entity, path } of found.values()) {
    const other = byEntity.get(entity);
    if (other !== undefined) {
      const example = `--path ${entity}_too=${path}`;
      throw usage(`--path: ${other} and ${path} would both be ${entity}. Name one of them: ${example}`);
    }
    byEntity.set(entity, path);
  }
  return [...found.values()];
}

function literal(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** `/tickets/{id}`, for `/tickets`. */
function isOneOf(path: string, listing: string): boolean {
  const root = listing.replace(/\/$/, '');
  return path.startsWith(root) && /^\/\{[^}/]+\}\/?$/.test(path.slice(root.length));
}

/**
 * Makes the entity name of a path: `/api/v2/users/{id}/orders.json` becomes `user_orders`. It does not depend on other
 * imported entities.
 */
function entityOf(path: string): string | null {
  const segments = path
    .replace(/\.json\/?$/, '')
    .split('/')
    .filter((one) => one !== '');
  const last = segments.findLastIndex((one) => !one.startsWith('{'));
  const above = segments.filter(
    (one, at) => at < last && !one.startsWith('{') && segments[at + 1]?.startsWith('{'),
  );
  const name = [...above.map(singular), segments[last] ?? ''].join('_');
  return columnName(name);
}

/** Makes a definition's name from the words of the title, as many as fit. */
function serviceName(title: string): string {
  const words = wordsOf(title).filter((word) => !/^(?:the|api|rest|openapi|specification|v\d+)$/.test(word));
  let name = '';
  for (const word of words) {
    const longer = name === '' ? word : `${name}-${word}`;
    if (longer.length > 33) break;
    name = longer;
  }
  return name;
}

/** Values of an answer that lie deeper are of the service's records, not of its pages. */
const mostLevels = 3;
const mostValues = 1_000;

function namedOperation(
  operation: JsonObject,
  entity: string,
  action: 'list' | 'get',
  schemas: Schemas,
): JsonObject {
  const parameters = listIn(operation, 'parameters')
    .map((one) => schemas.resolve(one))
    .filter(isSent);
  const named = {
    ...withoutOurs(operation),
    parameters,
    [`${prefix}entity`]: entity,
    [`${prefix}action`]: action,
  };
  const answer = answerSchema(operation, schemas);
  if (action === 'get') {
    const [member, ...others] = [...schemas.properties(answer)];
    const isWrapped = member !== undefined && others.length === 0 && schemas.typeOf(member[1]) === 'object';
    return isWrapped ? { ...named, [`${prefix}record-extractor`]: `$.${member[0]}` } : named;
  }
  const found: Record<string, JsonValue> = {};
  let seen = 0;
  const add = (schema: JsonObject, at: string, level: number): void => {
    for (const [name, member] of schemas.properties(schema)) {
      if ((seen += 1) > mostValues) return;
      const type = schemas.typeOf(member);
      if (type === 'object' && level < mostLevels) add(member, `${at}.${name}`, level + 1);
      else if (type !== 'array' && type !== 'object') found[`${at}.${name}`.slice(2)] = `${at}.${name}`;
    }
  };
  add(answer, '$', 1);
  for (const name of Object.keys(headersOf(operation, schemas))) {
    found[name] = name.toLowerCase() === 'link' ? '@link.next' : `@header.${name}`;
  }
  return { ...named, [`${prefix}meta-extractor`]: found };
}

/** Removes our keys from a plain file, which does not use them in our sense. */
function withoutOurs(part: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(part).filter(([name]) => !name.startsWith(prefix)));
}

/** OpenAPI says that these are described elsewhere. */
function isSent(param: JsonObject): boolean {
  const name = textIn(param, 'name')?.toLowerCase() ?? '';
  return textIn(param, 'in') !== 'header' || !['accept', 'content-type', 'authorization'].includes(name);
}

function headersOf(operation: JsonObject, schemas: Schemas): JsonObject {
  const success = Object.entries(objectIn(operation, 'responses')).find(([status]) => status.startsWith('2'));
  return objectIn(schemas.resolve(success?.[1]), 'headers');
}

/**
 * The security schemes that all these operations accept, each with the credentials that it takes. Where the file
 * requires several at once, all except the first are sent as headers.
 */
function plainSchemes(root: JsonObject, operations: readonly JsonObject[], schemas: Schemas): JsonObject {
  const declared = objectIn(root, 'components', 'securitySchemes');
  const [first, ...others] = operations.map((operation) => requirementsOf(operation, root, declared));
  const common = (first ?? []).filter((names) =>
    others.every((all) => all.some((one) => one.toSorted().join(' ') === names.toSorted().join(' '))),
  );
  return Object.fromEntries(
    common.flatMap((names) => {
      const parts = names.map((name) => [name, schemas.resolve(declared[name])] as const);
      // A key in a header can be sent together with any other scheme, so it is never the first one.
      const main = parts.find(([, scheme]) => !isHeader(scheme)) ?? parts[0];
      if (main === undefined) return [];
      const beside = parts.filter((one) => one !== main);
      return waysOf(main[0], main[1], beside);
    }),
  );
}

/**
 * Names of schemes that are required together, for each way; without a statement in the file, each scheme is one way.
 */
function requirementsOf(
  operation: JsonObject,
  root: JsonObject,
  declared: JsonObject,
): readonly (readonly string[])[] {
  const own = Array.isArray(operation['security']) ? operation : root;
  if (!Array.isArray(own['security'])) return Object.keys(declared).map((name) => [name]);
  const stated = listIn(own, 'security').map((one) => (isJsonObject(one) ? Object.keys(one) : []));
  // An operation without requirements accepts any scheme.
  if (stated.every((names) => names.length === 0)) {
    return Object.keys(declared).map((name) => [name]);
  }
  return stated.filter((names) => names.length > 0);
}

function isHeader(scheme: JsonObject): boolean {
  return textIn(scheme, 'type') === 'apiKey' && textIn(scheme, 'in') === 'header';
}

type NamedScheme = readonly [name: string, scheme: JsonObject];

/** One scheme, or one for each of its flows. */
function waysOf(name: string, scheme: JsonObject, beside: readonly NamedScheme[]): readonly NamedScheme[] {
  switch (textIn(scheme, 'type') ?? '') {
    case 'http': {
      const isBasic = textIn(scheme, 'scheme')?.toLowerCase() === 'basic';
      return [[name, withConfig(scheme, isBasic ? ['username', 'password'] : ['token'], beside)]];
    }
    case 'apiKey':
      return [[name, withConfig(scheme, ['api_key'], beside)]];
    case 'oauth2': {
      const { deviceAuthorization, ...flows } = objectIn(scheme, 'flows');
      return Object.entries(flows).map(([flow, part]) => {
        // A code on another device is one more way to the tokens of a code in the browser.
        const isCode = flow === 'authorizationCode';
        const device = isCode && deviceAuthorization !== undefined ? { deviceAuthorization } : {};
        const client = ['client_id', 'client_secret', ...(isCode ? ['refresh_token'] : [])];
        const fields = isCode || flow === 'clientCredentials' ? client : ['access_token'];
        const own = { ...scheme, flows: { [flow]: part, ...device } };
        return [isCode ? name : `${name} ${flow}`, withConfig(own, fields, beside)];
      });
    }
    default:
      return [[name, scheme]];
  }
}

/** Adds the fields of the credentials: those that the scheme needs, by these names, and one for each `beside` it. */
function withConfig(
  scheme: JsonObject,
  fields: readonly string[],
  beside: readonly NamedScheme[],
): JsonObject {
  // Only keys in headers can be sent in addition to the first scheme. An empty template refuses any other.
  const headers = beside.map(([name, one]): readonly [string, JsonValue] => [
    textIn(one, 'name') ?? '',
    isHeader(one) ? `{{ ${fieldName(name)} }}` : '',
  ]);
  const all = [...fields, ...beside.map(([name]) => fieldName(name))];
  const config = {
    required: all,
    properties: Object.fromEntries(all.map((field) => [field, {}])),
    auth_mapping: Object.fromEntries(fields.map((field) => [field, `\${${field}}`])),
    additional_headers: Object.fromEntries(headers),
  };
  return { ...scheme, [`${prefix}auth-config`]: config };
}

/** `X-App.Key`: `x_app_key`, as the name of a field of credentials. */
function fieldName(name: string): string {
  return (
    name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_')
      .replaceAll(/^_+|_+$/g, '')
      .replace(/^(?=\d)/, 'key_') || 'key'
  );
}
