import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';
import type { Operation, Parameter } from './operation.ts';
import type { Paging } from './paging.ts';
import { holdsTemplate, oneLine, plainText, textsIn, wordsOf, type Schemas } from './schemas.ts';
import type { ServiceFile } from './service-file.ts';

/** A part of an entity that the file leaves open: the definition has a guess there, under a line with `# TODO`. */
export interface OpenQuestion {
  /** The guess in the written definition. */
  readonly at: YamlPath;
  /** Says what to write there, and why it is open. */
  readonly text: string;
}

/** By parameter: what is sent with every call, and where it is from. */
export type FixedValues = ReadonlyMap<string, FixedValue>;

interface FixedValue {
  readonly value: JsonValue;
  readonly evidence: string;
  /** A time of the clock: what is listed moves with it. */
  readonly isClock?: true;
}

/**
 * What is sent with every call, and the parameters that need a value of their own for each listing: the required ones,
 * and those that the file links to a parent. For a person to decide: `limiting`, a default that leaves records out, and
 * `listing`, what an entity lists where the file says or shows that it is not all there is.
 */
export function valuesSent(
  list: Operation,
  paging: Paging,
  mode: ModeName,
  { service, signedHeaders }: Sources,
) {
  const ofPaging = new Set([paging.size?.param.name, 'param' in paging ? paging.param?.name : undefined]);
  const fixed = new Map<string, FixedValue>();
  const open: Parameter[] = [];
  const limiting: Parameter[] = [];
  const listing: (Undecided & { readonly param: Parameter })[] = [];
  const isLinked = (name: string): boolean =>
    service.relationships.some(
      ({ child, parent, param }) => child === list.entity && parent !== child && param === name,
    );
  for (const param of list.params) {
    const { name, fallback, isRequired, place } = param;
    if (ofPaging.has(name) || (place === 'header' && signedHeaders.has(name.toLowerCase()))) continue;
    if (param.isFilled && mode === 'hosted') continue;
    const time = clockDefault(fallback);
    const leftOut = leftOutBy(param, list);
    if (time !== null) {
      const evidence = 'its default in the file, computed from the clock';
      fixed.set(name, { value: time, evidence, isClock: true });
    } else if (holdsTemplate(fallback)) {
      const why = `the default of ${name} is computed by a template: ${oneLine(JSON.stringify(fallback), 80)}`;
      return { fixed, open, limiting, listing, refused: why };
    } else if (place === 'header' && fallback !== undefined) continue;
    else if ((isRequired || isLinked(name)) && (fallback === undefined || isEmpty(fallback))) {
      open.push(param);
    } else if (isTimeIn(param) || (service.isPlain && isChoice(param))) limiting.push(param);
    else if (leftOut !== null) listing.push({ ...leftOut, param });
    else if (fallback !== undefined && fallback !== null && param.type !== 'number' && !param.isSpread) {
      const ascending = ascendingOf(fallback, param.schema, service.schemas);
      fixed.set(
        name,
        ascending === null
          ? { value: fallback, evidence: 'its default in the file' }
          : {
              value: ascending,
              evidence: 'not descending, its default: a record that changes then comes again # guessed',
            },
      );
    }
  }
  const sentence =
    listing.length > 0 ? null : (saidToLeaveOut(list.description) ?? saidToNeedFilter(list.description));
  return {
    fixed,
    open,
    limiting,
    listing,
    refused: sentence === null ? null : `it does not list everything by itself ("${oneLine(sentence, 120)}")`,
  };
}

interface OpenValue {
  readonly param: Parameter;
  readonly why: string;
  readonly choices: readonly string[];
  readonly guess?: JsonValue;
}

/**
 * Guesses for values that nothing in the file fills, and for defaults that would leave records out, each with its
 * question. The list of an API sends no parameter of its search: there the question has no guess.
 */
export function guessedValues(
  { entity }: Operation,
  mode: ModeName,
  { limiting, listing }: Pick<ReturnType<typeof valuesSent>, 'limiting' | 'listing'>,
  missing: readonly Parameter[],
): { readonly fixed: FixedValues; readonly open: readonly OpenQuestion[] } {
  const values: readonly OpenValue[] = [
    ...missing.map((param) => {
      const why = param.description === '' ? 'nothing in the file fills it' : oneLine(param.description, 120);
      return { param, why, choices: choicesOf(param.schema) };
    }),
    ...limiting.map((param) => {
      const value = plainText(param.fallback ?? null);
      const why = `its default (${oneLine(value, 100)}) may leave records out`;
      const choices = [value, ...choicesOf(param.schema).filter((one) => one !== value)];
      return { param, why, choices, guess: param.fallback ?? null };
    }),
    ...listing,
  ];
  const isSent = ({ param }: OpenValue): boolean => param.isOfSearch !== true || mode === 'direct';
  const open = values.map((one): OpenQuestion => {
    const { name, isRequired } = one.param;
    const such =
      one.choices.length === 0 ? '' : ` (such as ${oneLine(one.choices.slice(0, 12).join(', '), 100)})`;
    if (!isSent(one)) {
      const text = `the list of the API sends no ${name}: leave the entity out, or keep it without. ${one.why}`;
      return { at: ['entities', entity, 'actions'], text };
    }
    const none = isRequired ? '' : ', or remove it to send nothing';
    return {
      at: ['entities', entity, 'fixedParams', name],
      text: `write what to send as ${name}${such}${none}: ${one.why}`,
    };
  });
  const fixed = values
    .filter(isSent)
    .map(
      ({ param, choices, guess = guessOf(param, choices[0]) }) =>
        [param.name, { value: guess, evidence: 'guessed' }] as const,
    );
  return { fixed: new Map(fixed), open };
}

/** A value that the definition of the parameter permits; a person writes the right one. */
function guessOf({ type }: Parameter, choice: string | undefined): JsonValue {
  switch (type) {
    case 'integer':
    case 'number':
      return Number.isSafeInteger(Number(choice)) ? Number(choice) : 0;
    case 'boolean':
      return choice !== 'false';
    case 'array':
      return [choice ?? 'todo'];
    case 'object':
      return {};
    case 'string':
      return choice ?? 'todo';
  }
}

/** A fixed day in the default: it leaves out what is older or newer, and the file gives it as an example only. */
function isTimeIn({ name, fallback }: Parameter): boolean {
  const text = JSON.stringify(fallback ?? null);
  return /\b(?:19|20)\d\d-[01]\d|\byear:(?:19|20)\d\d/.test(text) && !/version|revision/i.test(name);
}

/** One of several kinds that a service lists by default. In a connector.yaml the default is what its author wanted. */
function isChoice({ name, schema, fallback }: Parameter): boolean {
  return typeof fallback === 'string' && textsIn(schema, 'enum').length > 1 && !isForm(name);
}

const opposites = new Map([
  ['desc', 'asc'],
  ['DESC', 'ASC'],
  ['descending', 'ascending'],
  ['DESCENDING', 'ASCENDING'],
]);

/**
 * A default that sorts with the newest first, the other way round: otherwise a record that changes while the listing is
 * read moves ahead of what was read. Null: it does not, or the file names other ways only.
 */
function ascendingOf(fallback: JsonValue, schema: JsonObject, schemas: Schemas): JsonValue | null {
  if (typeof fallback === 'string') {
    const opposite = opposites.get(fallback) ?? null;
    const stated = textsIn(schema, 'enum');
    return opposite === null || (stated.length > 0 && !stated.includes(opposite)) ? null : opposite;
  }
  if (!isJsonObject(fallback)) return null;
  const members = schemas.properties(schema);
  for (const [name, value] of Object.entries(fallback)) {
    const ascending = typeof value === 'string' ? ascendingOf(value, members.get(name) ?? {}, schemas) : null;
    if (ascending !== null) return { ...fallback, [name]: ascending };
  }
  return null;
}

/** A default that only fills its place: `''`, `List()`. */
function isEmpty(value: JsonValue): boolean {
  return value === null || (typeof value === 'string' && /^(?:|\[\]|\{\}|List\(\))$/.test(value));
}

const clockFormats: Readonly<Record<string, string>> = {
  '%Y-%m-%d': 'date',
  '%Y%m%d': 'compactDate',
  '%Y%m%dT%H': 'compactHour',
  '%Y-%m-%dT%H:%M:%SZ': 'dateTime',
};

const clockForm =
  /^\{\{ *(?:now_utc\(\)|\(now_utc\(\) *([+-]) *duration\('P(\d{1,4})D'\)\))\.strftime\('([^']+)'\) *\}\}$/;

/**
 * A default that is a time so many days before or after now, as a definition says it: the one kind of template that is
 * known, matched and never run. Null: it is none.
 */
function clockDefault(value: JsonValue | undefined): JsonObject | null {
  const [whole, sign, days = '0', written = ''] =
    clockForm.exec(typeof value === 'string' ? value : '') ?? [];
  const format = Object.hasOwn(clockFormats, written) ? clockFormats[written] : undefined;
  if (whole === undefined || format === undefined) return null;
  return { days: sign === '-' ? -Number(days) : Number(days), format };
}

/** What a person has to decide for one entity, and what could be sent. */
interface Undecided {
  readonly name: string;
  readonly why: string;
  readonly choices: readonly string[];
}

/** What the file says or shows of a listing that is not all there is, unless a parameter is sent; null: nothing. */
function leftOutBy(param: Parameter, { action, description, onePage }: Operation): Undecided | null {
  const { name, fallback, schema } = param;
  const asked = (why: string, choices: readonly string[]): Undecided => ({
    name,
    why,
    choices,
  });
  const value = typeof fallback === 'string' ? oneLine(fallback, 200) : null;
  // In a query language, whatever pages follow.
  if (value !== null && /\blimit\s+\d/i.test(value)) {
    return asked(`its default lists so many records only (${oneLine(value, 120)})`, [value]);
  }
  // `jql`: a search without it lists nothing, or refuses.
  if (action === 'api_search' && fallback === undefined && /^[a-z]*ql$/i.test(name)) {
    return asked(`it is a search for what ${name} says (${oneLine(param.description, 120)})`, []);
  }
  const whole = value === null || isForm(name) ? null : wholeChoice(schema);
  if (value !== null && whole !== null && !isWhole(value)) {
    return asked(`its default (${value}) lists less than ${whole}`, [whole, value]);
  }
  if (fallback !== undefined) return null;
  const sentence =
    saidToLeaveOut(param.description) ?? (names(description, name) ? saidToLeaveOut(description) : null);
  if (sentence === null && isWindow(onePage ?? '') && names(onePage ?? '', name)) {
    return asked(`it bounds what is listed ("${oneLine(onePage ?? '', 200)}")`, choicesFor(param));
  }
  if (sentence === null) return null;
  return asked(`without it records are left out ("${oneLine(sentence, 120)}")`, choicesFor(param));
}

/** The sentence of a description by which a listing leaves records out, or refuses to list them all; null: none. */
export function saidToLeaveOut(description: string): string | null {
  return description.split(/(?<=[.!?])\s+/).find(leavesOut) ?? null;
}

/** Without a filter, such a listing answers with an error. */
function saidToNeedFilter(description: string): string | null {
  const found = description
    .split(/(?<=[.!?])\s+/)
    .find((one) => /\bat least one\b/i.test(one) && /\b(?:filter|criterion|criteria)\b/i.test(one));
  return found ?? null;
}

const unsaid =
  /\bby default\b|\bdefault (?:query|filter)\b|\b(?:if|when|unless) (?:it is |they are )?(?:no|not|none|omitted|unspecified|absent|empty)\b/i;

const part =
  /\b(?:exclud\w*|only|past \d+|last \d+|not|never|implied|hidden|omits|without)\b|\bdefault (?:query|filter)\b/i;

function leavesOut(sentence: string): boolean {
  const match = unsaid.exec(sentence);
  if (match === null) return false;
  const others = /^default/i.test(match[0]) ? sentence : sentence.replace(match[0], '');
  return part.test(others);
}

/** One answer has everything of a time that the call names: what it has otherwise is for the service to choose. */
function isWindow(onePage: string): boolean {
  return /\bscoped to the requested\b/i.test(onePage);
}

/** `status`, `?status=`: not the middle of another name. */
function names(description: string, name: string): boolean {
  return description.split(/[^\w.[\]-]+/).some((word) => word.replace(/[.]+$/, '') === name);
}

function wholeChoice(schema: Parameter['schema']): string | null {
  const found = textsIn(schema, 'enum').filter(isWhole);
  // Both: how several conditions are put together.
  return found.length === 1 ? (found[0] ?? null) : null;
}

function isWhole(choice: string): boolean {
  return /^(?:all|any)$/i.test(choice);
}

const form =
  /\b(?:sort|order|direction|format|fields|include|expand|lang|language|locale|units?|granularity|interval|mode)\b/;

/** It says what records look like, and not which of them are listed. */
function isForm(name: string): boolean {
  return form.test(wordsOf(name).join(' '));
}

function choicesFor({ schema, type }: Parameter): readonly string[] {
  const stated = choicesOf(schema);
  if (stated.length > 0) return stated;
  if (type === 'boolean') return ['true'];
  return schema['format'] === 'date-time' ? ['1970-01-01T00:00:00Z'] : [];
}

/** The first of the values that the file permits. */
function choicesOf(schema: Parameter['schema']): readonly string[] {
  return textsIn(schema, 'enum')
    .slice(0, 20)
    .map((choice) => oneLine(choice, 80));
}

/** One for each entity that has a listing: by `list`, or by `api_search` where the service has nothing else. */
export function listingsOf({ operations }: Pick<ServiceFile, 'operations'>): readonly Operation[] {
  const lists = new Map<string, Operation>();
  for (const action of ['list', 'api_search']) {
    for (const operation of operations) {
      if (operation.action === action && !lists.has(operation.entity)) lists.set(operation.entity, operation);
    }
  }
  return [...lists.values()].map((list) => withSearch(list, operations));
}

/** Entities that no import can read, because the file has no list of them. */
export function unlistedEntities({ operations }: Pick<ServiceFile, 'operations'>) {
  const listed = new Set(listingsOf({ operations }).map(({ entity }) => entity));
  const entities = new Set(operations.map(({ entity }) => entity).filter((entity) => !listed.has(entity)));
  return [...entities].map((entity) => {
    const actions = operations.filter((one) => one.entity === entity).map(({ action }) => action);
    return { entity, why: `the file has no list of it, only ${[...new Set(actions)].join(', ')}` };
  });
}

/** Lists of an entity behind the first one: a definition has one list of each. */
export function furtherListings({ operations }: Pick<ServiceFile, 'operations'>) {
  const paths = new Map(listingsOf({ operations }).map(({ entity, path }) => [entity, path]));
  return operations
    .filter(({ action, entity, path }) => action === 'list' && paths.get(entity) !== path)
    .map(({ entity, method, path }) => ({ entity, why: `not read: a further list, ${method} ${path}` }));
}

/** With what the search for the same records can be asked for and says to leave out otherwise. */
function withSearch(list: Operation, operations: readonly Operation[]): Operation {
  const search = operations.find(({ action, entity }) => action === 'api_search' && entity === list.entity);
  if (search === undefined || search === list || list.method !== 'GET') return list;
  const more = search.params.flatMap((param): readonly Parameter[] => {
    const isDeclared = list.params.some(({ name }) => name === param.name);
    const isPlain = param.place === 'query' && !param.isRequired && param.fallback === undefined;
    const isMeant = isPlain && !isDeclared && saidToLeaveOut(param.description) !== null;
    return isMeant ? [{ ...param, isOfSearch: true }] : [];
  });
  return { ...list, params: [...list.params, ...more] };
}

/** Through a Connector Execution API, or the service itself. */
export type ModeName = 'hosted' | 'direct';

/** What an import reads from. */
export interface Sources {
  readonly service: ServiceFile;
  /** Lower-case names of headers that a way to sign in sends. */
  readonly signedHeaders: ReadonlySet<string>;
  /** The operation that reads one record. */
  readonly getOf: (entity: string) => Operation | null;
  /** One for each entity that has a listing. */
  readonly listings: readonly Operation[];
}
