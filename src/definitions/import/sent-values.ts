import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';
import type { Operation, Parameter } from './operation.ts';
import type { Paging } from './paging.ts';
import { holdsTemplate, oneLine, textsIn, wordsOf, type Schemas } from './schemas.ts';
import type { ServiceFile } from './service-file.ts';

/**
 * A comment above a place of the written definition. About a part that the file leaves open, and where the definition
 * has a guess, it stands under `# TODO`, and says what to write there and why it is open.
 */
export interface Comment {
  readonly at: YamlPath;
  readonly text: string;
}

/** Values that are sent with every call, by parameter. */
export type FixedValues = ReadonlyMap<string, JsonValue>;

/** Parameters whose values a person has to write, and why. */
type Asked = readonly { readonly param: Parameter; readonly why: string }[];

/**
 * The values that are sent with every call, and the parameters that need a value for each listing: the required ones,
 * and those that the file links to a parent. `asked`: parameters whose value a person must write, or records may be
 * left out.
 */
export function valuesSent(list: Operation, paging: Paging, mode: ModeName, { service }: Sources) {
  const ofPaging = new Set([paging.size?.param.name, 'param' in paging ? paging.param?.name : undefined]);
  const fixed = new Map<string, JsonValue>();
  const open: Parameter[] = [];
  const asked: Asked[number][] = [];
  const isLinked = (name: string): boolean =>
    service.relationships.some(
      ({ child, parent, param }) => child === list.entity && parent !== child && param === name,
    );
  for (const param of list.params) {
    const { name, fallback, isRequired, place } = param;
    if (ofPaging.has(name) || (param.isFilled && mode === 'hosted')) continue;
    const why = leftOutBy(param, list, service);
    if (place === 'header' && fallback !== undefined && !holdsTemplate(fallback)) continue;
    if ((isRequired || isLinked(name)) && (fallback === undefined || isEmpty(fallback))) open.push(param);
    else if (why !== null) asked.push({ param, why });
    else if (fallback !== undefined && fallback !== null && param.type !== 'number' && !param.isSpread) {
      fixed.set(name, ascending(fallback, param.schema, service.schemas));
    }
  }
  const sentence = asked.length > 0 ? null : sentenceLeavingOut(list.description, never);
  const refused =
    sentence === null ? null : `it does not list everything by itself ("${oneLine(sentence, 120)}")`;
  return { fixed, open, asked, refused };
}

/**
 * Guesses for values that nothing in the file fills, and for defaults that may leave records out, each with its
 * question.
 */
export function guessedValues(list: Operation, asked: Asked, missing: readonly Parameter[]) {
  const unfilled = missing.map((param) => {
    return { param, why: oneLine(param.description, 120) || 'nothing in the file fills it' };
  });
  const values: Asked = [...unfilled, ...asked];
  const open = values.map(({ param: { name, isRequired, schema }, why }): Comment => {
    const choices = textsIn(schema, 'enum').slice(0, 12);
    const such = choices.length === 0 ? '' : ` (such as ${oneLine(choices.join(', '), 100)})`;
    const none = isRequired ? '' : ', or remove it to send nothing';
    return {
      at: ['entities', list.entity, 'fixedParams', name],
      text: `write what to send as ${name}${such}${none}: ${why}`,
    };
  });
  return { fixed: new Map(values.map(({ param }) => [param.name, guessOf(param)])), open };
}

/** A value that the definition of the parameter permits; a person writes the right one. */
function guessOf({ type, schema, fallback }: Parameter): JsonValue {
  if (fallback !== undefined && !isEmpty(fallback) && !holdsTemplate(fallback)) return fallback;
  const [choice = 'todo'] = textsIn(schema, 'enum');
  const number = Number.isSafeInteger(Number(choice)) ? Number(choice) : 0;
  const guesses = { integer: number, number, boolean: true, array: [choice], object: {}, string: choice };
  return guesses[type];
}

/**
 * Reverses a default that sorts with the newest first, unless the file names only other orders: a record that changes
 * while the listing is read would move to a page that was read already.
 */
function ascending(fallback: JsonValue, schema: JsonObject, schemas: Schemas): JsonValue {
  if (typeof fallback === 'string') {
    const opposite = fallback.replace(/^desc(?=(?:ending)?$)/, 'asc').replace(/^DESC(?=(?:ENDING)?$)/, 'ASC');
    const stated = textsIn(schema, 'enum');
    return stated.length === 0 || stated.includes(opposite) ? opposite : fallback;
  }
  if (!isJsonObject(fallback)) return fallback;
  const members = schemas.properties(schema);
  return Object.fromEntries(
    Object.entries(fallback).map(([name, value]) => [
      name,
      ascending(value, members.get(name) ?? {}, schemas),
    ]),
  );
}

/** A default that only fills its place: `''`, `List()`. */
function isEmpty(value: JsonValue): boolean {
  return value === null || (typeof value === 'string' && /^(?:|\[\]|\{\}|List\(\))$/.test(value));
}

/**
 * The reason why a listing may leave records out, unless a person says what to send; null: nothing in the file says so.
 * In a connector.yaml the author chose the defaults, so they stay, unless a choice or a name says that they hide some.
 */
function leftOutBy(param: Parameter, list: Operation, { isPlain, schemas }: ServiceFile): string | null {
  const { name, type, fallback, schema, description } = param;
  const words = wordsOf(name).join(' ');
  const hides = type === 'boolean' && hidden.test(words);
  const isForm = !hides && (form.test(words) || (type !== 'boolean' && /\binclude\b/.test(words)));
  const choices = [schema, schemas.items(schema)].flatMap((one) => textsIn(one, 'enum'));
  if (fallback === undefined) {
    if (/\bfields\b/.test(words)) return null;
    // `jql`: a search without it lists nothing, or refuses.
    if (list.action === 'api_search' && /^[a-z]*ql$/i.test(name)) {
      return `it is a search for what ${name} says (${oneLine(description, 120)})`;
    }
    const about = `${list.description} ${list.onePage ?? ''}`;
    // `status`, `?status=`: not the middle of another name.
    const isNamed = about.split(/[^\w.[\]-]+/).some((word) => word.replace(/[.]+$/, '') === name);
    const sentence =
      sentenceLeavingOut(description, isForm ? never : isPlain ? aDefault : aTime) ??
      (isNamed ? sentenceLeavingOut(about, isForm ? never : aTime) : null);
    if (sentence !== null) return `without it records are left out ("${oneLine(sentence, 200)}")`;
    if (!isPlain || isForm) return null;
    if (hides && /\b(?:include|show|with)\b/.test(words)) return 'by its name, records are hidden without it';
    return choices.some((choice) => whole.test(choice))
      ? 'one of its choices is all, so that it may not be sent by itself'
      : null;
  }
  const text = typeof fallback === 'string' ? fallback : JSON.stringify(fallback);
  if (holdsTemplate(fallback)) {
    return `a template computes its default (${oneLine(text, 80)}); a time of the clock is { days: -30, format: date }, with deletes: never`;
  }
  const unhides =
    fallback === true ? /\b(?:include|show|with|all)\b/ : /\b(?:only|exclude\w*|mine|skip|hide)\b/;
  const isAll = whole.test(text) || (typeof fallback === 'boolean' && unhides.test(words));
  const isChoice = isPlain || hides || (choices.length > 1 && choices.some((choice) => whole.test(choice)));
  const isPart =
    (isChoice && !isAll && !isForm) ||
    (aDay.test(text) && !/version|revision/i.test(name)) ||
    /\blimit\s+\d/i.test(text);
  return isPart ? `its default (${oneLine(text, 100)}) may leave records out` : null;
}

const whole = /^(?:all|any)$/i;

/** A fixed day in a default leaves out older or newer records, and the file gives it as an example only. */
const aDay = /\b(?:19|20)\d\d-[01]\d|\byear:(?:19|20)\d\d/;

/** Parameters that select the form of records, and not which of them are listed. */
const form =
  /\b(?:sort|order|direction|format|fields|expand|lang|language|locale|units?|granularity|interval|mode|currency|time ?zone|tz|version|pretty|content|details?|counts?|totals?|metadata|depth)\b/;

/** Flags that decide which records are listed. */
const hidden =
  /\b(?:archived?|deleted?|trash(?:ed)?|removed|(?:in)?active|disabled|enabled|closed|open|hidden|drafts?|suspended|(?:un)?published|cancell?ed|expired|completed|resolved|private|internal|spam|shared|only|exclude\w*|mine|all)\b/;

const unsaid =
  /\bby default\b|\bdefault (?:query|filter)\b|\bunless\b.*\b(?:set|given|specified|provided|sent|passed|requested|used|true|false|included)\b|\b(?:if|when) (?:it is |they are )?(?:no|not|none|omitted|unspecified|absent|empty)\b/i;

const part =
  /\b(?:exclud\w*|only|past \d+|last \d+|not|never|implied|hidden|omits|without)\b|\bdefault (?:query|filter)\b/i;

const wantsFilter =
  /\bscoped to the requested\b|\bat least one\b.*\b(?:filter|criterion|criteria)\b|\b(?:filter|criterion|criteria)\b.*\bat least one\b/i;

/** A default that is stated in words: of any kind, or a time. */
const aDefault = /\bdefault(?:s|ed|ing)?\b(?!.*\b(?:all|any|none|null|empty)\b)/i;
const aTime =
  /\bdefault(?:s|ed|ing)?\b.*\b(?:now|today|yesterday|current|ago|(?:hour|day|week|month|quarter|year)s?)\b/i;
const never = /^(?!)/;

/** The sentence by which a listing leaves records out, or refuses to list them all; null: none. */
function sentenceLeavingOut(description: string, also: RegExp): string | null {
  const leavesOut = (sentence: string): boolean => {
    if (wantsFilter.test(sentence) || also.test(sentence)) return true;
    const [said] = unsaid.exec(sentence) ?? [];
    return said !== undefined && part.test(/^default/i.test(said) ? sentence : sentence.replace(said, ''));
  };
  return description.split(/(?<=[.!?])\s+/).find(leavesOut) ?? null;
}

/** One for each entity that has a listing: by `list`, or by `api_search` where the service has nothing else. */
export function listingsOf({ operations }: Pick<ServiceFile, 'operations'>): readonly Operation[] {
  const lists = new Map<string, Operation>();
  for (const action of ['list', 'api_search']) {
    for (const operation of operations) {
      if (operation.action === action && !lists.has(operation.entity)) lists.set(operation.entity, operation);
    }
  }
  return [...lists.values()];
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

/** Lists of an entity behind its first one, which no import reads: a definition has one list of each. */
export function furtherListings({ operations }: Pick<ServiceFile, 'operations'>) {
  const paths = new Map(listingsOf({ operations }).map(({ entity, path }) => [entity, path]));
  return operations
    .filter(({ action, entity, path }) => action === 'list' && paths.get(entity) !== path)
    .map(({ entity, path }) => {
      return { entity: `${entity} of ${path}`, why: `another list of it is read: ${paths.get(entity)}` };
    });
}

/** Through a Connector Execution API, or the service itself. */
export type ModeName = 'hosted' | 'direct';

/** The input of an import. */
export interface Sources {
  readonly service: ServiceFile;
  /** The operation that reads one record. */
  readonly getOf: (entity: string) => Operation | null;
  /** One for each entity that has a listing. */
  readonly listings: readonly Operation[];
}
