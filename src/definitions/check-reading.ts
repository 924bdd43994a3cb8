import { checkSorting } from './check-actions.ts';
import { isUniqueInListing } from './build-pagination.ts';
import type { EntityFile } from './definition-file.ts';
import { type EntityCheck, fieldAt, fieldType } from './check-names.ts';
import { pagingParams } from './paging-params.ts';
import { noSuch } from './suggest-name.ts';

/**
 * What walks rest on: asking for changes only, listings that only grow, records that listings leave out, windows of
 * backfills.
 */
export function checkReading(check: EntityCheck): void {
  const { entity, note } = check;
  checkIncremental(check);
  if (entity.growsOnly && entity.deletes !== 'never') {
    note(
      ['growsOnly'],
      `expected deletes: never beside it (got ${entity.deletes}): rows of such a listing never leave`,
      ['deletes'],
    );
  }
  checkKeyless(check);
  checkUnlisted(check);
  checkWhole(check);
  checkWindow(check);
  checkCut(check);
}

type Incremental = NonNullable<EntityFile['incremental']>;

/** Of fields that hold a number of seconds or milliseconds. */
const numberTypes: ReadonlySet<string> = new Set(['integer', 'number', 'string']);

/** The change value, the parameters that ask for it, and what makes such a walk complete. */
function checkIncremental(check: EntityCheck): void {
  const { entity, note } = check;
  const { incremental } = entity;
  if (incremental === null) return;
  checkChangeField(check, incremental);
  if (entity.recursive !== null) {
    const message = 'expected no tree: listings inside listings are read as one, whole or not at all';
    note(['incremental'], message, ['recursive']);
  }
  switch (incremental.kind) {
    case 'keyset':
      checkSinceParam(check, incremental);
      checkKeyset(check, incremental.field);
      return;
    case 'since':
      checkSinceParam(check, incremental);
      // Offsets and page numbers prove something only where the order is known.
      if (restsOnOrder(entity.pagination) && entity.order === null && !entity.growsOnly) {
        note(
          ['incremental'],
          `expected an order, or growsOnly: pages by ${entity.pagination.kind} prove nothing without one, and no watermark would ever move`,
          ['pagination'],
          ['order'],
          ['growsOnly'],
        );
      }
      if (entity.pagination.kind === 'lastRecord' && !isUniqueInListing(entity.pagination.field, entity)) {
        const message =
          'expected the field of the pagination to be the key: else pages prove nothing, and no watermark would ever move';
        note(['incremental'], message, ['pagination'], ['key'], ['parents']);
      }
      return;
    case 'newestFirst':
      checkNewestFirst(check, incremental.params);
  }
}

function restsOnOrder({ kind }: EntityFile['pagination']): boolean {
  return kind === 'offset' || kind === 'page';
}

function checkChangeField({ entity, note }: EntityCheck, { field, format }: Incremental): void {
  const at = ['incremental', 'field'];
  const { type, declaration, known } = changeFieldType(entity, field);
  if (type === null) {
    note(at, noSuch('field', field, known), ...declaration);
  } else if (format === undefined && type !== 'string') {
    const message = `expected a field of type string that holds a time, ${field} is of type ${type}`;
    const advice = type === 'integer' ? '; for a number of seconds, add format: unix' : '';
    note(at, `${message}${advice}`, ...declaration, ['incremental', 'format']);
  } else if (format !== undefined && !numberTypes.has(type)) {
    const message = `expected a field of type integer, number or string for format ${format}`;
    note(at, `${message}, ${field} is of type ${type}`, ...declaration);
  }
}

/**
 * The type of a field, or of a field of an exploded array's elements (`activity.timestamp`). What lies inside an object
 * is not declared: it is taken to be a text. `type`: null where there is no such field; `declaration`: the places that
 * say so; `known`: what could have been meant.
 */
function changeFieldType(entity: EntityFile, path: string) {
  const [first = '', ...rest] = path.split('.');
  const { explode } = entity;
  if (explode !== null && first === explode.field && rest.length > 0) {
    return {
      type: explode.fields[rest.join('.')] ?? null,
      declaration: [['explode'], fieldAt(first)],
      known: Object.keys(explode.fields).map((name) => `${first}.${name}`),
    };
  }
  const type = fieldType(entity, first) ?? null;
  const isInside = rest.length > 0 && !rest.includes('') && (type === 'object' || type === 'any');
  return {
    type: isInside ? 'string' : rest.length > 0 ? null : type,
    declaration: [fieldAt(first), ['explode']],
    known: Object.keys(entity.fields),
  };
}

function checkSinceParam(
  { entity, note, textParam }: EntityCheck,
  { sinceParam, format, sinceFormat = format ?? 'iso' }: Extract<Incremental, { sinceParam: string }>,
): void {
  const at = ['incremental', 'sinceParam'];
  // A number may be sent as one.
  const isNumber = entity.actions.list?.params[sinceParam]?.type === 'integer';
  if (!isNumber || sinceFormat === 'iso') textParam(at, sinceParam);
  for (const place of ['fixedParams', 'order'] as const) {
    const sent = place === 'order' ? entity.order?.params : entity.fixedParams;
    if (sent !== undefined && Object.hasOwn(sent, sinceParam)) {
      note(at, `${sinceParam} is also named in ${place}: it cannot have two values`, [place]);
    }
  }
}

function checkKeyset({ entity, note }: EntityCheck, field: string): void {
  const kindAt = ['incremental', 'kind'];
  const { pagination, order } = entity;
  if (!restsOnOrder(pagination)) {
    note(kindAt, `keyset expects pagination by offset or page, got ${pagination.kind}`, ['pagination']);
  }
  if (order?.field !== field) {
    const got = order === null ? 'there is no order' : `order sorts by ${order.field}`;
    const message = `keyset expects the order to sort by ${field}, ascending; ${got}`;
    note(['incremental', 'field'], message, ['order'], kindAt);
  }
}

function checkNewestFirst(check: EntityCheck, params: EntityFile['fixedParams']): void {
  const { entity, note } = check;
  const at = ['incremental', 'params'];
  const { kind } = entity.pagination;
  if (kind !== 'pageToken') {
    const message = `newestFirst expects pagination by pageToken, got ${kind}`;
    note(['incremental', 'kind'], message, ['pagination']);
  }
  if (Object.keys(params).length === 0) {
    note(at, 'expected the parameters that sort by the field, newest first');
  }
  checkSorting(check, params, at, ['fixedParams']);
}

/** What is identified by all of its content is another record with each change, and cannot be asked for. */
function checkKeyless({ entity, note }: EntityCheck): void {
  if (entity.isKeyless !== true) return;
  if (entity.deletes !== 'never') {
    const message = `expected never beside key: none (got ${entity.deletes}): a record that changes is another one`;
    note(['deletes'], message, ['key']);
  }
  const why = 'beside key: none: its records would be other ones with each change';
  if (entity.explode !== null) note(['explode'], `expected none ${why}`, ['key']);
  if (entity.recursive !== null) note(['recursive'], `expected none ${why}`, ['key']);
  if (entity.actions.get !== undefined) {
    note(['actions', 'get'], 'expected none beside key: none: nothing names one record', ['key']);
  }
}

function checkUnlisted(check: EntityCheck): void {
  check.entity.unlisted.forEach(({ field, values }, index) => {
    const at = ['unlisted', index];
    const type = fieldType(check.entity, field);
    check.field([...at, 'field'], field, ['string', 'boolean']);
    if (type !== 'string' && type !== 'boolean') return;
    values.forEach((value, position) => {
      if (typeof value !== type) {
        const message = `expected a ${type}, the type of ${field}, got ${JSON.stringify(value)}`;
        check.note([...at, 'values', position], message, fieldAt(field));
      }
    });
  });
}

/** What a record is known to be whole by must come with it. */
function checkWhole({ entity, note, field }: EntityCheck): void {
  const { recursive, parents } = entity;
  const ofTree =
    recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
  const filledIn = new Set([...ofTree, ...parents.flatMap(({ inject }) => Object.keys(inject))]);
  entity.whole.forEach((name, index) => {
    field(['whole', index], name);
    if (!filledIn.has(name)) return;
    note(['whole', index], `expected a field that the service sends, ${name} is filled in from the listing`);
  });
}

function checkWindow({ entity, note, textParam }: EntityCheck): void {
  const { window, pagination, fixedParams } = entity;
  if (window === null) return;
  const paging = pagingParams(pagination).map(({ name }) => name);
  for (const bound of ['since', 'before'] as const) {
    const name = window[bound];
    const at = ['window', bound];
    textParam(at, name);
    if (paging.includes(name) || Object.hasOwn(fixedParams, name)) {
      const message = `${name} is set elsewhere: it cannot have two values`;
      note(at, message, ['pagination'], ['fixedParams']);
    }
  }
  if (window.since === window.before) {
    note(['window'], `expected two parameters, got ${window.since} for both bounds`);
  }
}

/** A listing can be read from its other end where both orders are of one time. */
function checkCut(check: EntityCheck): void {
  const { entity, note, field: checkField } = check;
  const { reversed } = entity.cut ?? {};
  if (reversed === undefined) return;
  const here = ['cut', 'reversed'];
  const { order, incremental } = entity;
  if (order === null) note(here, 'expected an order, whose opposite it is', ['order'], here);
  else if (incremental === null) checkField(['order', 'field'], order.field, ['string']);
  else if (incremental.field !== order.field) {
    const message = `expected the order to sort by the field of incremental, ${incremental.field}, got ${order.field}`;
    note(here, message, ['order'], ['incremental', 'field']);
  }
  if (entity.recursive !== null) note(here, 'expected no tree: listings inside listings have one order');
  if (Object.keys(reversed).length === 0) note(here, 'expected the parameters that sort newest first');
  checkSorting(check, reversed, here, ['fixedParams']);
}
