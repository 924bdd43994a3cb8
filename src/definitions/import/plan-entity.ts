import type { JsonObject } from '../../core/json.ts';
import { fieldsOf, type Fields } from './fields.ts';
import { findParents, type ParentOf } from './find-parents.ts';
import { getsOwnKind, inferKey, namesKey, neededParams } from './keys.ts';
import type { Mode, Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import { inferPaging, type Paging } from './paging.ts';
import { columnName, oneLine } from './parts.ts';
import type { ParentLink } from './parents.ts';
import { refusedIn } from './refusals.ts';
import type { FieldType } from './schemas.ts';
import { guessedValues, valuesSent, type FixedValues, type OpenQuestion } from './sent-values.ts';
import type { ServiceFile } from './service-file.ts';

/** What becomes of one entity of the file in one mode. */
export type Outcome =
  | { readonly kind: 'converted'; readonly plan: EntityPlan }
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
  readonly parents: readonly ParentLink[];
  readonly paging: Paging;
  /** Values that are sent with every call, by parameter, and where each is from. */
  readonly fixed: FixedValues;
  /** Guesses that a person has to confirm or to replace before the entity is synced. */
  readonly open: readonly OpenQuestion[];
}

/** Judges a list operation. */
export function planEntity(stated: Operation, mode: Mode, sources: Sources, parentOf: ParentOf): Outcome {
  const placed = withRecords(stated, mode);
  const { list } = placed;
  const refused = (why: string): Outcome => ({ kind: 'refused', why });
  const { schemas } = sources.service;
  const { entity } = list;
  const reason = refusalOf(list, mode);
  if (reason !== null) return refused(reason);
  const found = inferPaging(list, schemas);
  if (found.kind === 'refused') return refused(found.why);
  const { paging } = found;
  const unread = mode.refusesPaging(paging);
  if (unread !== null) return refused(unread);
  const fields = fieldsOf(recordOf(list, sources.service), schemas);
  const get = sources.getOf(entity);
  const key = inferKey({
    entity,
    fields,
    get,
    namedBy: sources.service.relationships.flatMap(({ parent, field }) => (parent === entity ? [field] : [])),
    isPlain: sources.service.isPlain,
  });
  const sent = valuesSent(list, paging, mode, sources);
  if (sent.refused !== null) return refused(sent.refused);
  const own = new Map(fields.declared.map(({ name, type }) => [name, type] as const));
  const links = findParents(list, sent.open, own, sources, parentOf);
  if (links.refused !== null) return refused(links.refused);
  const values = guessedValues(list, mode, sent, links.missing);
  const identity = identityOf(key, links.found, own, list, get);
  const parents = links.found.map((link) => withoutFilters(link, list, identity.key));
  const injected = injectedBy(parents);
  const missing = identity.key.filter(
    (name) => !['string', 'integer'].includes(own.get(name) ?? injected.get(name) ?? ''),
  );
  if (missing.length > 0) {
    return refused(`a key consists of string and integer fields of the record, ${missing[0]} is none`);
  }
  const open = [
    ...placed.open,
    ...openAt(entity, 'pagination', found.open),
    ...openAt(entity, 'key', identity.open),
    ...values.open,
  ];
  const fixed = new Map([...sent.fixed, ...values.fixed]);
  const { key: columns, evidence: keyEvidence } = identity;
  const plan = {
    entity,
    list,
    get,
    fields,
    injected,
    key: columns,
    keyEvidence,
    parents,
    paging,
    fixed,
    open,
  };
  return { kind: 'converted', plan };
}

function refusalOf(list: Operation, mode: Mode): string | null {
  if (columnName(list.entity) !== list.entity) {
    return 'its name cannot be that of a table: lower-case words joined by _';
  }
  const unfit = list.records === null ? 'the file does not say where in the answer its records are' : null;
  return refusedIn(list, mode) ?? unfit;
}

function openAt(entity: string, part: 'pagination' | 'key', text: string | null): readonly OpenQuestion[] {
  return text === null ? [] : [{ at: ['entities', entity, part], text }];
}

/** Columns that parents fill, and their types. */
function injectedBy(parents: readonly ParentLink[]): EntityPlan['injected'] {
  return new Map(
    parents.flatMap(({ parent, params, inject }) =>
      [...inject].map(
        ([param, column]) => [column, parent.fields.get(params.get(param) ?? '') ?? 'string'] as const,
      ),
    ),
  );
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

/** With the first of several lists as the records, where the file names none; a person chooses. */
function withRecords(
  list: Operation,
  mode: Mode,
): { readonly list: Operation; readonly open: readonly OpenQuestion[] } {
  const [first] = list.places;
  if (list.records !== null || first === undefined) return { list, open: [] };
  const places = oneLine(list.places.map(({ path }) => path.join('.')).join(', '));
  const at =
    mode.name === 'hosted'
      ? ['entities', list.entity, 'records']
      : ['upstream', 'entities', list.entity, 'list', 'records'];
  const text = `write which of the lists in an answer has the records: ${places}`;
  return { list: { ...list, records: first }, open: [{ at, text }] };
}

/** The schema of a record; where the answer has none, what a GraphQL query selects, as the indexed store types it. */
function recordOf({ entity, records, body }: Operation, { schemas, searchable }: ServiceFile): JsonObject {
  const record = records?.record ?? {};
  if (schemas.properties(record).size > 0 || body.selected.length === 0) return record;
  const known = new Map(searchable.get(entity));
  return { properties: Object.fromEntries(body.selected.map((name) => [name, known.get(name) ?? {}])) };
}

/**
 * The key of a row: that of a record, behind what tells listings apart unless the id is known to do that itself. A
 * guess has `open`, which says what to write.
 */
function identityOf(
  found: ReturnType<typeof inferKey>,
  links: readonly ParentLink[],
  own: ReadonlyMap<string, FieldType>,
  list: Operation,
  get: Operation | null,
): { readonly key: readonly string[]; readonly evidence: string; readonly open: string | null } {
  const write = 'write the fields that identify a record, or none';
  if (found.kind === 'open') {
    const perhaps =
      found.candidates.length === 0 ? '' : ` (perhaps ${oneLine(found.candidates.join(', '), 100)})`;
    const open = `${write}${perhaps}: ${found.why}`;
    return { key: found.candidates.slice(0, 1), evidence: 'guessed', open };
  }
  const { key, evidence } = found;
  const [link, ...others] = links;
  if (link === undefined) return { key, evidence, open: null };
  const [param, ...more] = neededParams(get);
  const isAlone =
    param !== undefined &&
    more.length === 0 &&
    (!link.params.has(param.name) || getsOwnKind(list, get)) &&
    key.some((name) => namesKey(param.name, name));
  if (isAlone) {
    return { key, evidence: `${evidence}, by which alone the service gets a record`, open: null };
  }
  const columnsOf = ({ inject, params }: ParentLink): readonly string[] =>
    [...params.keys()].flatMap((name) => inject.get(name) ?? ownColumn(name, own));
  const above = columnsOf(link);
  if (!others.every((other) => above.every((column) => columnsOf(other).includes(column)))) {
    const by = links.map(({ parent }) => parent.entity).join(' and ');
    const open = `${write}: its listings are found by ${by}, and is ${key.join(', ')} unique among all of them?`;
    return { key, evidence: 'guessed', open };
  }
  const parts = [...above.filter((column) => !key.includes(column)), ...key];
  const within = `${evidence}, within its parent: no get shows that it is unique alone`;
  return { key: parts, evidence: within, open: null };
}

function ownColumn(param: string, own: ReadonlyMap<string, FieldType>): readonly string[] {
  return own.has(param) ? [param] : [];
}
