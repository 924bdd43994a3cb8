import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Question } from './answers.ts';
import { answeredValue } from './answered-value.ts';
import type { Mode, Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import type { Paging } from './paging.ts';
import type { Parameter } from './parameter.ts';
import {
  choicesOf,
  isForm,
  leftOutBy,
  saidToLeaveOut,
  saidToNeedFilter,
  type Undecided,
} from './left-out.ts';
import { holdsTemplate, oneLine, textsIn } from './parts.ts';
import type { Schemas } from './schemas.ts';

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
  paging: Paging | null,
  mode: Mode,
  { answers, service, signedHeaders }: Sources,
) {
  const ofPaging = new Set([
    paging?.size?.param.name,
    paging !== null && 'param' in paging ? paging.param?.name : undefined,
  ]);
  const fixed = new Map<string, FixedValue>();
  const open: Parameter[] = [];
  const limiting: Parameter[] = [];
  const listing: Undecided[] = [];
  const wrong: Question[] = [];
  const own = answers.entities[list.entity]?.values ?? {};
  const values = { ...answers.values, ...own };
  const isLinked = (name: string): boolean =>
    service.relationships.some(
      ({ child, parent, param }) => child === list.entity && parent !== child && param === name,
    );
  for (const param of list.params) {
    const { name, fallback, isRequired, place } = param;
    if (ofPaging.has(name) || (place === 'header' && signedHeaders.has(name.toLowerCase()))) continue;
    if (param.isFilled && mode.name === 'hosted') continue;
    const given = Object.hasOwn(values, name) ? values[name] : undefined;
    // Typed in as a text, too.
    const answer = given === 'null' ? null : given;
    const time = clockDefault(fallback);
    const leftOut = leftOutBy(param, list);
    // Answered with null: it is not sent.
    if (answer === null && !isRequired) continue;
    if (param.isOfSearch === true && mode.name === 'hosted' && answer !== undefined) {
      const why = `the API sends no ${name} with its list, only with its search: null in the answers does without`;
      return { fixed, open, limiting, listing, wrong, refused: why };
    }
    if (answer !== undefined) {
      const found = answeredValue(param, answer, service.schemas);
      if ('value' in found) fixed.set(name, { value: found.value, evidence: 'answered' });
      else {
        const at = Object.hasOwn(own, name)
          ? ({ kind: 'ownValue', entity: list.entity, name } as const)
          : ({ kind: 'value', name } as const);
        const why = at.kind === 'value' ? `${list.entity}: ${found.problem}` : found.problem;
        wrong.push({ ...at, why, choices: choicesOf(param.schema), isWrong: true });
      }
    } else if (time !== null) {
      const evidence = 'its default in the file, computed from the clock';
      fixed.set(name, { value: time, evidence, isClock: true });
    } else if (holdsTemplate(fallback)) {
      const why = `the default of ${name} is computed by a template: ${oneLine(JSON.stringify(fallback), 80)}`;
      return { fixed, open, limiting, listing, wrong, refused: why };
    } else if (place === 'header' && fallback !== undefined) continue;
    else if ((isRequired || isLinked(name)) && (fallback === undefined || isEmpty(fallback))) {
      open.push(param);
    } else if (isTimeIn(param) || (service.isPlain && isChoice(param))) limiting.push(param);
    else if (leftOut !== null && param.isOfSearch === true && mode.name === 'hosted') {
      listing.push({ ...leftOut, choices: ['null'] });
    } else if (leftOut !== null) listing.push(leftOut);
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
  const isDecided = listing.length > 0 || Object.keys(own).length > 0;
  const sentence = isDecided
    ? null
    : (saidToLeaveOut(list.description) ?? saidToNeedFilter(list.description));
  return {
    fixed,
    open,
    limiting,
    listing,
    wrong,
    refused: sentence === null ? null : partOf(list, sentence),
  };
}

/** About values that nothing in the file fills, and defaults that would leave records out. */
export function valueQuestions(
  entity: string,
  { limiting, listing, wrong }: Pick<ReturnType<typeof valuesSent>, 'limiting' | 'listing' | 'wrong'>,
  missing: readonly Parameter[],
): readonly Question[] {
  return [
    ...missing.map(({ name, description, schema }): Question => {
      const why = description === '' ? 'nothing in the file fills it' : oneLine(description, 120);
      return { kind: 'value', name, why, choices: choicesOf(schema) };
    }),
    ...limiting.map(({ name, fallback, schema }): Question => {
      const value = oneLine(typeof fallback === 'string' ? fallback : JSON.stringify(fallback), 200);
      const choices = choicesOf(schema);
      const why = `its default (${oneLine(value, 100)}) may leave records out: what should be sent?`;
      return { kind: 'value', name, why, choices: choices.length > 0 ? choices : [value] };
    }),
    ...listing.map((one): Question => ({ kind: 'ownValue', entity, ...one })),
    ...wrong,
  ];
}

function partOf({ entity }: Operation, sentence: string): string {
  const place = `entities.${entity}.values`;
  return `it does not list everything by itself ("${oneLine(sentence, 120)}"): say in the answers what to send (${place})`;
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
