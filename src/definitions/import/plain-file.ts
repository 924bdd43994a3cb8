import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { usage } from '../../core/errors.ts';
import { suggestName } from '../suggest-name.ts';
import type { PlaceFile } from '../upstream/upstream-file.ts';
import {
  answerSchema,
  isPath,
  readOperation,
  recordPlaces,
  type Operation,
  type Parameter,
} from './operation.ts';
import {
  columnName,
  endName,
  listIn,
  objectIn,
  oneLine,
  partIn,
  prefix,
  singular,
  textIn,
  wordsOf,
  type Schemas,
} from './schemas.ts';
import { describedBy, invalid, nameProblems, readOpenApi, uuidOf, type ServiceFile } from './service-file.ts';

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

/**
 * Reads the OpenAPI file of any service and its listings. `leftOut`: the other GET operations, and why they are none.
 * Throws `ProblemsError` DEFINITION_INVALID.
 */
export function readPlainFile(file: string) {
  const opened = readOpenApi(file, 'an OpenAPI document');
  const { root, schemas } = opened;
  const listings: PlainListing[] = [];
  const leftOut: { readonly path: string; readonly why: string }[] = [];
  for (const [path, item] of Object.entries(objectIn(root, 'paths'))) {
    const operation = partIn(schemas.resolve(item), 'get');
    if (!isJsonObject(operation)) continue;
    const answer = answerSchema(operation, schemas);
    const records = recordPlaces(answer, schemas).map((place) => place.path.join('.'));
    const isArray = schemas.typeOf(answer) === 'array';
    // One record, whose own lists are no entity.
    const isRecord = !isArray && (/\}\/?$/.test(path) || schemas.properties(answer).has('id'));
    if (records.length > 0 && !isRecord) {
      const isDeprecated = partIn(operation, 'deprecated') === true;
      listings.push({ path, entity: entityOf(path), records, isDeprecated });
    } else if (Object.keys(answer).length === 0) {
      leftOut.push({ path, why: 'the file does not show what it answers with in JSON' });
    } else leftOut.push({ path, why: isRecord ? 'it answers with one record' : 'no list of objects in it' });
  }
  return { opened, listings, leftOut };
}

/** Reads these listings, their parents and the operations that read one record, as far as the file shows them. */
export function plainService({ opened, listings }: PlainFile, paths: readonly string[]): ServiceFile {
  const chosen = withParents(
    paths.map((path) => listingAt(path, listings)),
    listings,
  );
  const { root, schemas } = opened;
  const name = serviceName(textIn(root, 'info', 'title') ?? '');
  const problems = nameProblems(opened, name, 'title');
  if (problems.length > 0) throw invalid(problems);
  const operations = Object.entries(objectIn(root, 'paths')).flatMap(([path, item]) => {
    const shared = schemas.resolve(item);
    // A plain file does not use our keys in our sense.
    const members = Object.entries(objectIn(shared, 'get')).filter(([key]) => !key.startsWith(prefix));
    const operation = Object.fromEntries(members);
    const list = chosen.find((one) => one.path === path);
    const { entity } = list ?? chosen.find((one) => isOneOf(path, one.path)) ?? {};
    if (entity === undefined || members.length === 0) return [];
    const action = list === undefined ? 'get' : 'list';
    const read = readOperation({ path, method: 'get', entity, action, operation, shared }, schemas);
    return [{ ...read, ...plainPlaces(read, operation, schemas), params: read.params.filter(isSent) }];
  });
  const lists = operations.filter(({ action }) => action === 'list');
  const license = oneLine(textIn(root, 'info', 'license', 'name') ?? 'not named in it', 80);
  return {
    ...describedBy(opened, name),
    id: uuidOf(`openapi ${name}`),
    isPlain: true,
    licenseNote: [`License of that file: ${license}.`],
    schemes: plainSchemes(root, lists, schemas),
    operations,
    relationships: [],
    failed: undefined,
    scoped: new Set(),
  };
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
 * Makes the entity name of a path: `/api/v2/users/{id}/orders.json` becomes `user_orders`, and what is too long loses
 * its first words. It does not depend on other imported entities.
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
  return columnName(name) ?? endName(wordsOf(name));
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

/** The values of an answer outside its records and their places; of an answer with one record, the record's place. */
function plainPlaces({ action, answer }: Operation, operation: JsonObject, schemas: Schemas) {
  const metadata = new Map<string, PlaceFile>();
  if (action === 'get') {
    const [member, ...others] = [...schemas.properties(answer)];
    const isWrapped = member !== undefined && others.length === 0 && schemas.typeOf(member[1]) === 'object';
    return { metadata, extractor: isWrapped ? `$.${member[0]}` : null };
  }
  let seen = 0;
  const add = (schema: JsonObject, above: string, level: number): void => {
    for (const [name, member] of schemas.properties(schema)) {
      if ((seen += 1) > mostValues) return;
      const type = schemas.typeOf(member);
      const path = `${above}${name}`;
      if (type === 'object' && level < mostLevels) add(member, `${path}.`, level + 1);
      else if (type !== 'array' && type !== 'object' && isPath(path)) metadata.set(path, { path });
    }
  };
  add(answer, '', 1);
  const success = Object.entries(objectIn(operation, 'responses')).find(([status]) => status.startsWith('2'));
  for (const name of Object.keys(objectIn(schemas.resolve(success?.[1]), 'headers'))) {
    metadata.set(name, { header: name.toLowerCase() === 'link' ? 'Link' : name });
  }
  return { metadata, extractor: null };
}

/** OpenAPI says that these headers are described elsewhere. */
function isSent({ place, sent }: Parameter): boolean {
  return place !== 'header' || !['accept', 'content-type', 'authorization'].includes(sent.toLowerCase());
}

/**
 * The security schemes that all these operations accept, each with the credentials that it takes. Where the file
 * requires several at once, all except the first are sent as headers.
 */
function plainSchemes(root: JsonObject, operations: readonly Operation[], schemas: Schemas): JsonObject {
  const declared = objectIn(root, 'components', 'securitySchemes');
  const [first, ...others] = operations.map(({ security }) => requirementsOf(security, root, declared));
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
function requirementsOf(security: Operation['security'], root: JsonObject, declared: JsonObject) {
  const stated = (security ?? listIn(root, 'security'))
    .map((one) => (isJsonObject(one) ? Object.keys(one) : []))
    .filter((names) => names.length > 0);
  // An operation without requirements accepts any scheme.
  return stated.length > 0 ? stated : Object.keys(declared).map((name) => [name]);
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
function withConfig(scheme: JsonObject, fields: readonly string[], beside: readonly NamedScheme[]) {
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
