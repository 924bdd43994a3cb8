import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { isConnectorName } from '../../core/names.ts';
import { ProblemsError, type Problem } from '../../core/problems.ts';
import { parseYaml, readText } from '../read-yaml.ts';
import { readOperation, type Operation } from './operation.ts';
import {
  listIn,
  objectIn,
  oneLine,
  partIn,
  plainText,
  prefix,
  textIn,
  wordsOf,
  textsIn,
  openSchemas,
  referenceProblems,
  type Schemas,
} from './schemas.ts';

export type ServiceFile = ReturnType<typeof readServiceFile>;

/** A parameter of one entity that holds a field of another one's records. */
export type Relationship = ReturnType<typeof readRelationships>[number];

/** A file that is no YAML has one in every line. */
const mostProblems = 3;

/** Far more than any service has; each is compared with the others. */
const mostOperations = 2_000;

/** A file that was read, and is an OpenAPI document whose references lead nowhere but into it. */
type OpenApiFile = ReturnType<typeof readOpenApi>;

/** Throws `ProblemsError` DEFINITION_INVALID. Nothing is downloaded. */
export function readOpenApi(file: string, expected: string) {
  const { root, sha256, yaml } = readDocument(file);
  if (isJsonObject(root) && textIn(root, 'swagger') !== null) {
    const message = 'this is Swagger 2.0, expected OpenAPI 3: the service may offer it, and converters exist';
    throw invalid([yaml.problem(['swagger'], message)]);
  }
  const version = textIn(root, 'openapi');
  if (!isJsonObject(root) || version === null || !/^3\.[0-9]/.test(version)) {
    throw invalid([yaml.problem([], `expected ${expected} with a key openapi: 3.0 or 3.1`)]);
  }
  const problems = referenceProblems(root, yaml.problem);
  if (problems.length > 0) throw invalid(problems);
  return { file, sha256, root, schemas: openSchemas(root), problem: yaml.problem };
}

/**
 * A connector.yaml: an OpenAPI 3 document whose operations name their entity and action. No template of it runs.
 * Throws `ProblemsError` DEFINITION_INVALID with everything that keeps it from being read.
 */
export function readServiceFile(file: string) {
  const opened = readOpenApi(file, 'a connector.yaml: an OpenAPI document');
  const { root, schemas, problem } = opened;
  const info = objectIn(root, 'info');
  const operations = readOperations(root, schemas);
  if (!operations.some(({ action }) => action === 'list' || action === 'api_search')) {
    throw invalid([problem(['paths'], `expected an operation with ${prefix}action: list`)]);
  }
  if (operations.length > mostOperations) {
    throw invalid([problem(['paths'], `expected at most ${mostOperations} operations, got more`)]);
  }
  const nameKey = `${prefix}connector-name`;
  const name = textIn(info, nameKey) ?? wordsOf(textIn(info, 'title') ?? '').join('-');
  const id = (textIn(info, `${prefix}connector-definition-id`) ?? '').toLowerCase();
  const problems = [...nameProblems(opened, name, nameKey)];
  if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) {
    const message = 'expected the UUID of the connector type in the catalog';
    problems.push(problem(['info', `${prefix}connector-definition-id`], message));
  }
  if (problems.length > 0) throw invalid(problems);
  return {
    ...describedBy(opened, name),
    id,
    isPlain: false,
    licenseNote: publicNote,
    schemes: objectIn(root, 'components', 'securitySchemes'),
    operations,
    relationships: readRelationships(info),
    failed: readFailed(objectIn(info, `${prefix}response-error-check`), root),
    /** Parameters that come from the settings of a connector. */
    scoped: new Set(listIn(info, `${prefix}scoping`).flatMap((one) => textIn(one, 'param') ?? [])),
  };
}

/** The facts that a file gives of itself. */
export function describedBy({ file, sha256, root, schemas }: OpenApiFile, name: string) {
  const info = objectIn(root, 'info');
  const title = oneLine(textIn(info, 'title') ?? name, 80).replace(/ API Connector$/i, '');
  const version = oneLine(plainText(partIn(info, 'version')) || 'unknown', 40);
  return { file, sha256, root, schemas, name, title, version };
}

/** `key`: the member of `info` that the name is made of. */
export function nameProblems({ problem }: OpenApiFile, name: string, key: string): readonly Problem[] {
  if (isConnectorName(name) && name.length <= 33) return [];
  const message = 'expected lower-case words of letters and digits joined by _ or -, at most 33 characters';
  return [problem(['info', key], `${message}, got ${JSON.stringify(name.slice(0, 60))}`)];
}

/** Derives a UUID from the text: every import gives the same one. */
export function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export const publicNote = [
  'That file may be under the Elastic License 2.0, and this one is derived from it: keep this note, and read the',
  'license before you hand the file on or offer it as a service.',
];

/** Reads a YAML file of at most so many bytes. Nesting that is too deep for the reader is a problem of the file. */
export function readDocument(file: string, mostBytes = Infinity) {
  const failed = (message: string) => invalid([{ file, line: null, path: '', message }]);
  const text = readText(file);
  if (typeof text !== 'string') throw failed(text.message);
  if (text.length > mostBytes) throw failed(`expected at most ${mostBytes} bytes, got ${text.length}`);
  try {
    const yaml = parseYaml(file, text);
    const sha256 = createHash('sha256').update(text).digest('hex');
    // `as`: the reader of YAML gives JSON and nothing else.
    if (yaml.problems.length === 0) return { root: yaml.data as JsonValue, sha256, yaml };
    // The reader names an exhausted stack as one mistake of many.
    if (yaml.problems.some(({ message }) => /call stack/.test(message))) throw new RangeError('too deep');
    throw invalid(yaml.problems.slice(0, mostProblems));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw failed('expected less nesting in it');
  }
}

export function invalid(problems: readonly Problem[]): ProblemsError {
  return new ProblemsError('DEFINITION_INVALID', problems, 'The file to import');
}

function readOperations(root: JsonObject, schemas: Schemas): readonly Operation[] {
  return Object.entries(objectIn(root, 'paths')).flatMap(([path, item]) =>
    Object.entries(isJsonObject(item) ? item : {}).flatMap(([method, operation]) => {
      const entity = textIn(operation, `${prefix}entity`);
      const action = textIn(operation, `${prefix}action`);
      if (entity === null || action === null || !isJsonObject(operation)) return [];
      const shared = isJsonObject(item) ? item : {};
      return [readOperation({ path, method, entity, action, operation, shared }, schemas)];
    }),
  );
}

function readRelationships(info: JsonObject) {
  return listIn(info, `${prefix}entity-relationships`)
    .slice(0, mostOperations)
    .flatMap((one) => {
      const child = textIn(one, 'source_entity');
      const parent = textIn(one, 'target_entity');
      const param = textIn(one, 'foreign_key');
      const field = textIn(one, 'target_key');
      if (child === null || parent === null || param === null || field === null) return [];
      const [filter] = Object.entries(objectIn(one, 'parent_record_filter'));
      const values = (Array.isArray(filter?.[1]) ? filter[1] : [filter?.[1] ?? null]).map(String);
      /** Only parents with one of these values have children; null: all have. */
      const when = filter === undefined ? null : { field: filter[0], values };
      return [{ child, parent, param, field, when }];
    });
}

/** An answer with status 200 that says by a field with this value that it is an error; undefined: there is none. */
function readFailed(info: JsonObject, root: JsonObject): JsonObject | undefined {
  const check = Object.keys(info).length > 0 ? info : objectIn(root, `${prefix}response-error-check`);
  const path = textIn(check, 'field');
  const is = partIn(check, 'on_value');
  const code = textIn(check, 'message_field');
  if (path === null || (typeof is !== 'boolean' && typeof is !== 'string')) return undefined;
  return { path, is, ...(code === null ? {} : { code }) };
}

export type Server = ReturnType<typeof serverOf>;

const label = '[a-z0-9][a-z0-9-]{0,62}';

/**
 * The address of the service, and the names in its host that credentials fill: `{address}`, unless the file has one
 * server that is safe to call. `open`: the part of the address that a person has to fill in; null: none.
 */
export function serverOf({ root, isPlain }: ServiceFile) {
  const servers = listIn(root, 'servers').map(statedServer);
  const first = servers.find(({ isCertain }) => isCertain) ?? servers[0] ?? statedServer({});
  const isFixed = first.isCertain && servers.every((one) => one.url === first.url);
  const url = isFixed ? first.url : `{address}${first.path}`;
  const isListed = servers.every(({ isCertain, origin }) => isCertain && !origin.includes('{'));
  const address = { enum: isListed ? servers.map(({ origin }) => origin) : [] };
  const variables = { ...first.variables, ...(isFixed ? {} : { address }) };
  const urls = oneLine(servers.map((one) => one.url).join(', '), 200);
  const isOneBase = isFixed || servers.every(({ path }) => path === first.path);
  const open = isOneBase ? [] : [`write the address of the service: the file has ${urls}`];
  const host: Record<string, JsonObject> = {};
  // Places in the path and in the host are filled separately.
  const filled = url.replaceAll(/\{(\w+)\}/g, (written, name: string, index: number) => {
    const variable = objectIn(variables, name);
    const stated = textsIn(variable, 'enum');
    const fallback = textIn(variable, 'default');
    const isOrigin = index === 0;
    const isPath = url
      .slice(0, index)
      .replace(/^[^/]*:\/\//, '')
      .includes('/');
    const choices = isOrigin
      ? stated.map((choice) => choice.replace(/^https:\/\/([^/]+)\/?$/, '$1'))
      : stated;
    // OpenAPI demands the default. In a connector.yaml, such a name may tell accounts apart.
    const isDefault = isPath && isPlain && fallback !== null;
    if (isDefault && stated.length < 2) return fallback;
    if (isPath || !choices.every((text) => /^[a-z0-9][a-z0-9.-]*$/.test(text))) {
      // The file shows only the default of a value that a program computes from its choices.
      const shown = fallback === null || isPlain ? stated : [fallback];
      const such = shown.length === 0 ? '' : ` (such as ${oneLine(shown.join(', '), 100)})`;
      open.push(
        `write the address of the service, which is ${oneLine(url, 100)} in the file: what stands for ${name}${such}?`,
      );
      return isDefault ? fallback : 'todo';
    }
    host[name] = {
      from: [isOrigin ? { field: name, origin: true } : { field: name }],
      pattern: hostPattern(choices, new RegExp(`^(?:https?://)?\\{${name}\\}(?:[/:]|$)`).test(url)),
    };
    return written;
  });
  const baseUrl = filled.startsWith('https:') ? filled : `https://${filled}`;
  return { baseUrl, host, open: open.length === 0 ? null : open.join('; ') };
}

const notForUse =
  /\b(?:demo|sandbox|examples?|staging|test(?:ing)?|mock|localhost|self[- ]?hosted|on[- ]prem\w*|your)\b/i;

/** `isCertain`: nothing says that credentials should not be sent there. */
function statedServer(server: JsonValue) {
  // A name in place of the scheme stands for https.
  const url = (textIn(server, 'url') ?? '').replace(/^\{\w+\}(?=:\/\/)/, 'https').replace(/\/+$/, '');
  const [, scheme = 'https', origin = '', path = ''] = /^(?:(https?):\/\/)?([^/]*)(.*)$/.exec(url) ?? [];
  // No host ends in .example: credentials cannot reach one.
  const about = `${textIn(server, 'description') ?? ''} ${origin.replace(/\.[^.]*$/, '')}`;
  const isCertain = scheme === 'https' && origin !== '' && !notForUse.test(about);
  return { url, origin, path, variables: objectIn(server, 'variables'), isCertain };
}

/** The pattern of a name in a host. `isWhole`: it is the whole host, and has dots in it. */
export function hostPattern(choices: readonly string[], isWhole: boolean): string {
  if (choices.length > 0) return choices.map((choice) => choice.replaceAll('.', String.raw`\.`)).join('|');
  return isWhole ? String.raw`${label}(\.${label}){1,5}` : label;
}
