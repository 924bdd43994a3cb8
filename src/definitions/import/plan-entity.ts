import type { JsonObject } from '../../core/json.ts';
import type { Question } from './answers.ts';
import { firstNames, noSuch } from '../suggest-name.ts';
import { pagingOf, withAnsweredParam } from './answered-paging.ts';
import { fieldsOf, type Fields } from './fields.ts';
import { findParents, type ParentOf } from './find-parents.ts';
import { getsOwnKind, inferKey, namesKey, neededParams } from './keys.ts';
import type { Mode, Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import type { Paging } from './paging.ts';
import { columnName, oneLine } from './parts.ts';
import type { ParentLink } from './parents.ts';
import { refusedIn } from './refusals.ts';
import type { FieldType } from './schemas.ts';
import { valueQuestions, valuesSent, type FixedValues } from './sent-values.ts';
import type { ServiceFile } from './service-file.ts';

/** What becomes of one entity of the file in one mode. */
export type Outcome =
  | { readonly kind: 'converted'; readonly plan: EntityPlan }
  | { readonly kind: 'asked'; readonly questions: readonly Question[] }
  | { readonly kind: 'refused'; readonly why: string }
  /** A person has chosen others. */
  | { readonly kind: 'notChosen' };

/** Everything that a definition says of an entity, before it is written. */
export interface EntityPlan {
  readonly entity: string;
  readonly list: Operation;
  readonly get: Operation | null;
  readonly fields: Fields;
  /** Columns that parents fill, and their types. */
  readonly injected: ReadonlyMap<string, FieldType>;
  /** Empty: the records have none. */
  readonly key: readonly string[];
  readonly keyEvidence: string;
  readonly isKeyGuessed: boolean;
  readonly parents: readonly ParentLink[];
  readonly paging: Paging;
  /** Values that are sent with every call, by parameter, and where each is from. */
  readonly fixed: FixedValues;
  /** The field by which a low-code manifest reads it incrementally. */
  readonly cursor: string | null;
}

/** Judges a list operation. */
export function planEntity(stated: Operation, mode: Mode, sources: Sources, parentOf: ParentOf): Outcome {
  const answers = sources.answers.entities[stated.entity];
  const placed = withRecords(stated, answers?.records);
  const list = withAnsweredParam(placed, answers?.paging, mode.name);
  const refused = (why: string): Outcome => ({ kind: 'refused', why });
  const { schemas } = sources.service;
  const { entity } = list;
  if (columnName(entity) !== entity) {
    return refused('its name cannot be that of a table: lower-case words joined by _');
  }
  const reason = refusedIn(list, mode);
  if (reason !== null) return refused(reason);
  if (list.records === null && list.places.length === 0) {
    return refused('the file does not say where in the answer its records are');
  }
  if (list.records === null) {
    const choices = list.places.map(({ path }) => path.join('.'));
    const given = answers?.records;
    const isWrong = given !== undefined;
    const slip = isWrong ? `; ${noSuch('list', given, choices)}` : '';
    const why = `its answer has several lists: ${oneLine(choices.join(', '))}${slip}`;
    return { kind: 'asked', questions: [{ kind: 'records', entity, why, choices, isWrong }] };
  }
  const found = pagingOf(list, schemas, answers?.paging);
  if (found.kind === 'refused') return refused(found.why);
  const questions: Question[] =
    found.kind === 'asked'
      ? [
          {
            kind: 'paging',
            entity,
            why: found.why,
            choices: found.choices ?? ['single'],
            isWrong: found.isWrong,
          },
        ]
      : [];
  if (found.kind === 'found') {
    const why = mode.refusesPaging(found.paging);
    if (why !== null) return refused(why);
  }
  const fields = fieldsOf(recordOf(list, sources.service), schemas);
  const get = sources.getOf(entity);
  const stream = sources.service.streams.get(entity) ?? entity;
  const key = inferKey({
    entity,
    fields,
    get,
    namedBy: sources.service.relationships.flatMap(({ parent, field }) => (parent === entity ? [field] : [])),
    stated: sources.manifest?.keyOf(stream) ?? null,
    isPlain: sources.service.isPlain,
  });
  const answeredKey =
    answers?.key === 'none'
      ? 'none'
      : answers?.key?.map((name) => fields.declared.find(({ sent }) => sent === name)?.name ?? name);
  if (key.kind === 'asked' && answeredKey === undefined) {
    questions.push({ kind: 'key', entity, why: key.why, choices: key.candidates });
  }
  const sent = valuesSent(list, found.kind === 'found' ? found.paging : null, mode, sources);
  if (sent.refused !== null) return refused(sent.refused);
  const own = new Map(fields.declared.map(({ name, type }) => [name, type] as const));
  const links = findParents(list, sent.open, own, sources, parentOf);
  if (links.refused !== null) return refused(links.refused);
  questions.push(...links.questions, ...valueQuestions(entity, sent, links.missing));
  if (answeredKey !== undefined && answeredKey !== 'none') {
    // Of parents that are asked about it is not known which columns they fill.
    const above = links.questions.length > 0 ? list.params.map(({ name }) => name) : [];
    const filled = links.found.flatMap(({ inject }) => [...inject.values()]);
    const why = wrongKey(answeredKey, own, [...filled, ...above]);
    if (why !== null) {
      const choices = key.kind === 'asked' ? key.candidates : key.key;
      questions.push({ kind: 'key', entity, why, choices, isWrong: true });
    }
  }
  if (questions.length > 0 || found.kind !== 'found') return { kind: 'asked', questions };
  const identity = identityOf(key, answeredKey, links.found, own, list, get);
  if (identity === null) {
    const why = `its listings are found by ${links.found.map(({ parent }) => parent.entity).join(' and ')}`;
    const choices = key.kind === 'found' ? key.key : [];
    const text = `${why}: is ${choices.join(', ')} unique among all of them?`;
    return { kind: 'asked', questions: [{ kind: 'key', entity, why: text, choices }] };
  }
  const parents = links.found.map((link) => withoutFilters(link, list, identity.key));
  const injected = new Map(
    parents.flatMap(({ parent, params, inject }) =>
      [...inject].map(
        ([param, column]) => [column, parent.fields.get(params.get(param) ?? '') ?? 'string'] as const,
      ),
    ),
  );
  const missing = identity.key.filter(
    (name) => !['string', 'integer'].includes(own.get(name) ?? injected.get(name) ?? ''),
  );
  if (missing.length > 0) {
    return refused(`a key consists of string and integer fields of the record, ${missing[0]} is none`);
  }
  return {
    kind: 'converted',
    plan: {
      entity,
      list,
      get,
      fields,
      injected,
      key: identity.key,
      keyEvidence: identity.evidence,
      isKeyGuessed: key.kind === 'found' && key.isGuessed && answeredKey === undefined,
      parents,
      paging: found.paging,
      fixed: sent.fixed,
      cursor: sources.manifest?.cursorOf(stream) ?? null,
    },
  };
}

/** What is wrong with an answered key; `filled`: columns that its parents fill. */
function wrongKey(
  key: readonly string[],
  own: ReadonlyMap<string, FieldType>,
  filled: readonly string[],
): string | null {
  const keys = ['string', 'integer'];
  const usable = [...own].flatMap(([name, type]) => (keys.includes(type) ? [name] : []));
  const known = [...new Set([...filled, ...usable])];
  const wrong = key.find((name) => !known.includes(name));
  if (wrong === undefined) return null;
  const type = own.get(wrong);
  const what = type === undefined ? noSuch('field', wrong, known) : `its field ${wrong} is of type ${type}`;
  return `${what}: a key has some of ${firstNames(known) || 'no field: the file describes none, so only none fits'}`;
}

/**
 * A record may be in the listings of several values of an optional parameter. Where it is one row all the same, a
 * column with the value would change with each of them.
 */
function withoutFilters(link: ParentLink, { params }: Operation, key: readonly string[]): ParentLink {
  const isFilter = (name: string): boolean =>
    params.some((param) => param.name === name && !param.isRequired);
  const kept = [...link.inject].filter(([name, column]) => key.includes(column) || !isFilter(name));
  return { ...link, inject: new Map(kept) };
}

/** The place that a person chose, where the file names none. */
function withRecords(list: Operation, answered: string | undefined): Operation {
  if (list.records !== null || answered === undefined) return list;
  return { ...list, records: list.places.find(({ path }) => path.join('.') === answered) ?? null };
}

/** The schema of a record; where the answer has none, what a GraphQL query selects, as the indexed store types it. */
function recordOf({ entity, records, body }: Operation, { schemas, searchable }: ServiceFile): JsonObject {
  const record = records?.record ?? {};
  if (schemas.properties(record).size > 0 || body.selected.length === 0) return record;
  const known = new Map(searchable.get(entity));
  return { properties: Object.fromEntries(body.selected.map((name) => [name, known.get(name) ?? {}])) };
}

/**
 * The key of a row: that of a record, behind what tells listings apart unless the id is known to do that itself. Null
 * where listings of several parents have nothing in common that would.
 */
function identityOf(
  key: ReturnType<typeof inferKey>,
  answered: readonly string[] | 'none' | undefined,
  links: readonly ParentLink[],
  own: ReadonlyMap<string, FieldType>,
  list: Operation,
  get: Operation | null,
): { readonly key: readonly string[]; readonly evidence: string } | null {
  if (answered !== undefined) return { key: answered === 'none' ? [] : answered, evidence: 'answered' };
  if (key.kind === 'asked') return { key: [], evidence: '' };
  const [link, ...others] = links;
  if (link === undefined) return { key: key.key, evidence: key.evidence };
  const [param, ...more] = neededParams(get);
  const isAlone =
    param !== undefined &&
    more.length === 0 &&
    (!link.params.has(param.name) || getsOwnKind(list, get)) &&
    key.key.some((name) => namesKey(param.name, name));
  if (isAlone) return { key: key.key, evidence: `${key.evidence}, by which alone the service gets a record` };
  const columnsOf = ({ inject, params }: ParentLink): readonly string[] =>
    [...params.keys()].flatMap((name) => inject.get(name) ?? ownColumn(name, own));
  const above = columnsOf(link);
  if (!others.every((other) => above.every((column) => columnsOf(other).includes(column)))) return null;
  const parts = [...above.filter((column) => !key.key.includes(column)), ...key.key];
  return { key: parts, evidence: `${key.evidence}, within its parent: no get shows that it is unique alone` };
}

function ownColumn(param: string, own: ReadonlyMap<string, FieldType>): readonly string[] {
  return own.has(param) ? [param] : [];
}
