import type { Params } from '../core/records.ts';
import { timeFormat } from '../core/time-format.ts';
import { isUniqueInListing, buildAction, pagingParams, type Action, type Param } from './definition.ts';
import { checkParamName, fieldType, type Note, type EntityCheck } from './check-names.ts';
import { checkParam, checkParams, clockProblem, isClockValue, withTimes } from './params.ts';
import type { ActionFile, EntityFile } from './definition-file.ts';
import { keyOfToken } from './pagination-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { suggestName, noSuch } from './suggest-name.ts';

/**
 * Checks actions, their parameters, and the parameters that the definition sends with every `list` call: paging, order,
 * fixed ones.
 */
export function checkActions(check: EntityCheck): void {
  const { entity, note } = check;
  for (const [name, action] of Object.entries(entity.actions)) {
    if (action !== undefined) checkAction(check, name, action);
  }
  checkDownload(check);
  if (entity.actions.list === undefined) {
    note(['actions'], 'is missing list; every entity is read by its list action');
    return;
  }
  checkPagination(check, buildAction(entity.actions.list));
  checkFixed(check, buildAction(entity.actions.list));
  if (entity.order !== null) checkSorting(check, entity.order.params, ['order', 'params']);
}

function checkAction({ note, field: checkField }: EntityCheck, name: string, file: ActionFile): void {
  const at = ['actions', name];
  const action = buildAction(file);
  for (const [param, declared] of action.params) {
    checkDeclaration(param, declared, [...at, 'params', param], note);
  }
  if (name !== 'get' && name !== 'download') {
    if (action.key.size > 0) note([...at, 'key'], 'belongs to the actions get and download only');
    return;
  }
  for (const [param, field] of action.key) {
    if (!action.params.has(param)) {
      note([...at, 'key', param], `no such parameter${suggestName(param, action.params.keys())}`);
    }
    checkField([...at, 'key', param], field);
  }
  for (const [param, { required }] of action.params) {
    if (required && !action.key.has(param)) {
      note([...at, 'key'], `is missing ${param}: say which field of the record holds its value`);
    }
  }
}

function checkDeclaration(name: string, param: Param, at: YamlPath, note: Note): void {
  checkParamName(name, at, note);
  if (param.enum !== null && param.type !== 'string') {
    note([...at, 'enum'], `expected only on a string, this one is of type ${param.type}`);
  }
  if ((param.min !== null || param.max !== null) && param.type !== 'integer') {
    note(at, `expected min and max only on an integer, this one is of type ${param.type}`);
  }
  if (param.min !== null && param.max !== null && param.min > param.max) {
    note([...at, 'min'], `expected at most max (${param.max}), got ${param.min}`);
  }
  if (param.default !== null) {
    for (const message of checkParam('default', param, param.default)) {
      note([...at, 'default'], message);
    }
  }
  if (param.members !== undefined) {
    if (param.type !== 'object') {
      note([...at, 'members'], `expected only on an object, this one is of type ${param.type}`);
    }
    for (const [member, declared] of param.members) {
      checkDeclaration(member, declared, [...at, 'members', member], note);
    }
  }
}

/** Checks fixed parameters: values, and times of the clock, which are checked in the form in which they are sent. */
function checkFixed(check: EntityCheck, { params }: Action): void {
  const { entity, note } = check;
  const sound = Object.entries(entity.fixedParams).filter(([name, value]) => {
    const param = params.get(name);
    if (param === undefined || !isClockValue(value, param)) return true;
    const problem = clockProblem(value, param);
    if (problem !== null) note(['fixedParams', name], problem);
    else if (
      entity.deletes === 'sweep' ||
      (entity.deletes === 'confirm' && entity.actions.get === undefined)
    ) {
      const message = `expected never, or confirm and a get: with ${name} each run lists another span of time`;
      note(['deletes'], message);
    }
    return problem === null;
  });
  checkSent(check, withTimes(Object.fromEntries(sound), params, 0), ['fixedParams']);
}

/**
 * Checks parameters that the definition sends with list calls: declared, of the right type, and not those of the
 * pagination.
 */
function checkSent({ entity, note }: EntityCheck, sent: Params, place: YamlPath): void {
  const list = buildAction(entity.actions.list ?? { params: {}, key: {} });
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  for (const [name, value] of Object.entries(sent)) {
    const at = [...place, name];
    for (const message of checkParams(list, { [name]: value })) note(at, message);
    if (paging.includes(name)) note(at, 'is set by the pagination: leave it out');
  }
}

/** Checks parameters that sort a listing: declared for list calls, and not among those that are always sent. */
function checkSorting(check: EntityCheck, params: Params, at: YamlPath): void {
  checkSent(check, params, at);
  for (const name of Object.keys(params)) {
    if (!Object.hasOwn(check.entity.fixedParams, name)) continue;
    check.note([...at, name], 'is also a fixed parameter: name it in one place');
  }
}

const typeByRole = { name: 'string', contentType: 'string', size: 'integer' } as const;

/**
 * Checks a download: its file facts come from fields of the record; its parameters and their key are checked like those
 * of `get`.
 */
function checkDownload({ entity, note, field: checkField, fields }: EntityCheck): void {
  const { download } = entity.actions;
  if (download === undefined) return;
  const at = ['actions', 'download'];
  // Missing required ones are already reported.
  if (
    Object.keys(download.key).length === 0 &&
    !Object.values(download.params).some(({ required }) => required)
  ) {
    note([...at, 'key'], 'expected at least one parameter: nothing else says which file is asked for');
  }
  for (const role of ['name', 'contentType', 'size'] as const) {
    const field = download.file[role];
    if (field !== null) checkField([...at, 'file', role], field, [typeByRole[role]]);
  }
  fields([...at, 'file', 'version'], download.file.version);
}

type PaginationFile = EntityFile['pagination'];

const at: YamlPath = ['pagination'];

/** Checks the parameters of a pagination, and the field that a token comes from. */
function checkPagination(check: EntityCheck, list: Action): void {
  const { pagination } = check.entity;
  checkPagingParams(check, pagination);
  if ('firstParams' in pagination && pagination.firstParams !== undefined) {
    checkSorting(check, pagination.firstParams, [...at, 'firstParams']);
  }
  checkStep(check);
  checkSize(check, list, pagination);
  checkKeys(check, pagination);
  if (pagination.kind === 'lastRecord') checkTokenField(check, pagination.field);
}

function checkPagingParams({ note, param }: EntityCheck, pagination: PaginationFile): void {
  const params = pagingParams(pagination);
  for (const { role, name, types } of params) {
    param([...at, role], name, types);
    const other = params.find((one) => one.name === name)?.role ?? role;
    if (other !== role) note([...at, role], `expected another parameter than ${other}, which is ${name} too`);
  }
}

function checkSize({ note }: EntityCheck, list: Action, pagination: PaginationFile): void {
  if (pagination.kind === 'single') return;
  const { sizeParam, maxSize } = pagination;
  const sizeAt = [...at, 'maxSize'];
  const most = sizeParam === null ? null : (list.params.get(sizeParam)?.max ?? null);
  if (most !== null && maxSize !== null && maxSize > most) {
    note(sizeAt, `expected at most ${most}, the max of ${sizeParam}`);
  }
  if (!restsOnOrder(pagination) && (sizeParam === null) !== (maxSize === null)) {
    note(sizeAt, 'expected maxSize and sizeParam together, or neither');
  }
  if ('honoursSize' in pagination && pagination.honoursSize === true && sizeParam === null) {
    const message = 'expected sizeParam beside it: without one, no page has a size that was asked for';
    note([...at, 'honoursSize'], message);
  }
}

/** Checks that page numbers count pages: where pages change their size, rows between them would not be met. */
function checkStep({ entity: { pagination }, note }: EntityCheck): void {
  if (pagination.kind !== 'page' || pagination.step !== pagination.maxSize) return;
  const message = 'expected another number than maxSize: a parameter that counts records is kind: offset';
  note([...at, 'step'], message);
}

/** Checks that no value of an answer is read as two things: a flag of 0 would be a total of an empty listing. */
function checkKeys({ note }: EntityCheck, pagination: PaginationFile): void {
  const { flagKeys = [], doneKeys = [] } = { doneKeys: undefined, ...pagination };
  if (flagKeys.length > 0 && doneKeys.length > 0) {
    note([...at, 'doneKeys'], 'expected flagKeys or doneKeys, not both: they say the same');
  }
  const tokenKeys = pagination.kind === 'pageToken' ? pagination.tokenKeys.map(keyOfToken) : [];
  const keys = [...pagination.totalKeys, ...flagKeys, ...doneKeys, ...tokenKeys];
  keys.forEach((key, index) => {
    if (keys.indexOf(key) === index) return;
    note(at, `${key} is named twice among totalKeys, flagKeys, doneKeys and tokenKeys`);
  });
}

/** Checks the path of the value in the last record that requests the next page. */
function checkTokenField({ entity, note, field: checkField }: EntityCheck, path: string): void {
  const here = [...at, 'field'];
  const [first = '', ...rest] = path.split('.');
  if (entity.ignored.includes(first)) return;
  const types = rest.length > 0 ? ['object', 'any'] : ['string', 'integer', 'any'];
  checkField(here, first, types);
  const filled = [entity, ...entity.parents].find(({ inject = {} }) => Object.hasOwn(inject, first));
  if (fieldType(entity, first) === undefined || filled === undefined) return;
  const message = `expected a field that differs from record to record, ${first} is filled in from the listing`;
  note(here, message);
}

/**
 * Checks the assumptions of walks: requests for changes only, listings that only grow, records that listings leave out,
 * windows of backfills.
 */
export function checkReading(check: EntityCheck): void {
  const { entity, note } = check;
  checkIncremental(check);
  if (entity.growsOnly && entity.deletes !== 'never') {
    note(
      ['growsOnly'],
      `expected deletes: never beside it (got ${entity.deletes}): rows of such a listing never leave`,
    );
  }
  checkKeyless(check);
  checkUnlisted(check);
  checkWhole(check);
  checkWindow(check);
  checkCut(check);
}

type Windows = Extract<EntityFile['incremental'], { readonly kind: 'windows' }>;
type Incremental = Exclude<NonNullable<EntityFile['incremental']>, Windows>;

/** Types of fields that can hold a number of seconds or milliseconds. */
const numberTypes: ReadonlySet<string> = new Set(['integer', 'number', 'string']);

/** Checks the change value, the parameters that ask for it, and the conditions for a complete walk. */
function checkIncremental(check: EntityCheck): void {
  const { entity, note } = check;
  const { incremental } = entity;
  if (incremental === null) return;
  if (entity.recursive !== null) {
    note(['incremental'], 'expected no tree: listings inside listings are read as one, whole or not at all');
  }
  if (incremental.kind === 'windows') return checkWindows(check, incremental);
  checkChangeField(check, incremental);
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
        );
      }
      if (entity.pagination.kind === 'lastRecord' && !isUniqueInListing(entity.pagination.field, entity)) {
        const message =
          'expected the field of the pagination to be the key: else pages prove nothing, and no watermark would ever move';
        note(['incremental'], message);
      }
      return;
    case 'newestFirst':
      checkNewestFirst(check, incremental.params);
  }
}

/** Checks the parameters of windows, and that nothing else decides which records a listing has. */
function checkWindows({ entity, note, param, field: checkField }: EntityCheck, windows: Windows): void {
  const { fromParam, toParam, format, step, field } = windows;
  const { isNumber, floor } = timeFormat(format);
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  for (const role of ['fromParam', 'toParam'] as const) {
    const name = windows[role];
    if (name === null) continue;
    const at = ['incremental', role];
    param(at, name, isNumber ? ['string', 'integer'] : ['string']);
    const others = { ...entity.fixedParams, ...entity.order?.params };
    if (paging.includes(name) || Object.hasOwn(others, name)) {
      note(at, `${name} is set elsewhere: it cannot have two values`);
    }
  }
  if (fromParam === toParam) {
    note(['incremental'], `expected two parameters, got ${fromParam} for both bounds`);
  }
  const windowsEnd = 'days' in step ? 'days' : 'months';
  const next = windowsEnd === 'days' ? Date.UTC(2024, 0, 2) : Date.UTC(2024, 1, 1);
  if (floor(next) !== next) {
    note(['incremental', 'format'], `expected a format with ${windowsEnd}, as the step has, got ${format}`);
  }
  if (toParam === null && (windows.isToIncluded || windows.last === 'now')) {
    note(['incremental', 'toParam'], 'is missing: isToIncluded and last are about it');
  }
  if (field !== null) checkField(['incremental', 'field'], field.split('.')[0] ?? field);
  if (entity.window !== null) note(['window'], 'expected none: windows are read by themselves');
  if (entity.deletes === 'sweep' && entity.isKeyless !== true) {
    const message =
      'expected never, or confirm: a record whose time changes moves to a window that may not be read again';
    note(['deletes'], message);
  }
  entity.parents.forEach(({ marker }, index) => {
    if (marker === null) return;
    note(
      ['parents', index, 'marker'],
      'expected none: a new window is read whether the parent changed or not',
    );
  });
}

function restsOnOrder({ kind }: EntityFile['pagination']): boolean {
  return kind === 'offset' || kind === 'page';
}

function checkChangeField({ entity, note }: EntityCheck, { field, format }: Incremental): void {
  const at = ['incremental', 'field'];
  const { type, known } = changeFieldType(entity, field);
  if (type === null) {
    note(at, noSuch('field', field, known));
  } else if (timeFormat(format ?? 'iso').isNumber ? !numberTypes.has(type) : type !== 'string') {
    const isNumber = timeFormat(format ?? 'iso').isNumber;
    const types = isNumber ? 'integer, number or string' : 'string';
    const what = format === undefined ? 'that holds a time' : `for format ${format}`;
    const advice = type === 'integer' && !isNumber ? '; for a number of seconds, add format: unix' : '';
    note(at, `expected a field of type ${types} ${what}, ${field} is of type ${type}${advice}`);
  }
}

/**
 * The type of a field, or of a field of an exploded array's elements (`activity.timestamp`). Members of an object are
 * not declared: they are assumed to be texts. `type`: null where there is no such field; `known`: the names that could
 * have been meant.
 */
function changeFieldType(entity: EntityFile, path: string) {
  const [first = '', ...rest] = path.split('.');
  const { explode } = entity;
  if (explode !== null && first === explode.field && rest.length > 0) {
    return {
      type: explode.fields[rest.join('.')] ?? null,
      known: Object.keys(explode.fields).map((name) => `${first}.${name}`),
    };
  }
  const type = fieldType(entity, first) ?? null;
  const isInside = rest.length > 0 && !rest.includes('') && (type === 'object' || type === 'any');
  return {
    type: isInside ? 'string' : rest.length > 0 ? null : type,
    known: Object.keys(entity.fields),
  };
}

function checkSinceParam(
  { entity, note, param }: EntityCheck,
  { kind, sinceParam, format, sinceFormat = format ?? 'iso' }: Extract<Incremental, { sinceParam: string }>,
): void {
  const at = ['incremental', 'sinceParam'];
  const { isNumber, floor } = timeFormat(sinceFormat);
  // A number may be sent as one.
  param(at, sinceParam, isNumber ? ['string', 'integer'] : ['string']);
  if (kind === 'keyset' && floor(1_000) !== 1_000) {
    const message = `expected a format with seconds, got ${sinceFormat}: each page of a keyset begins at a second`;
    note(['incremental', 'sinceFormat'], message);
  }
  if (Object.hasOwn({ ...entity.fixedParams, ...entity.order?.params }, sinceParam)) {
    note(at, `${sinceParam} is also named in fixedParams or order: it cannot have two values`);
  }
}

function checkKeyset({ entity, note }: EntityCheck, field: string): void {
  const kindAt = ['incremental', 'kind'];
  const { pagination, order } = entity;
  if (!restsOnOrder(pagination)) {
    note(kindAt, `keyset expects pagination by offset or page, got ${pagination.kind}`);
  }
  if (order?.field !== field) {
    const got = order === null ? 'there is no order' : `order sorts by ${order.field}`;
    const message = `keyset expects the order to sort by ${field}, ascending; ${got}`;
    note(['incremental', 'field'], message);
  }
}

function checkNewestFirst(check: EntityCheck, params: EntityFile['fixedParams']): void {
  const { entity, note } = check;
  const at = ['incremental', 'params'];
  const { kind } = entity.pagination;
  if (kind !== 'pageToken') {
    note(['incremental', 'kind'], `newestFirst expects pagination by pageToken, got ${kind}`);
  }
  if (Object.keys(params).length === 0) {
    note(at, 'expected the parameters that sort by the field, newest first');
  }
  checkSorting(check, params, at);
}

/**
 * Checks an entity without a key: its whole content identifies a record, so each change makes another record, and no
 * record can be requested by key.
 */
function checkKeyless({ entity, note }: EntityCheck): void {
  if (entity.isKeyless !== true) return;
  const { deletes, incremental } = entity;
  if (deletes !== 'never' && (deletes === 'confirm' || incremental?.kind !== 'windows')) {
    const message = `expected never beside key: none (got ${deletes}): a record that changes is another one`;
    note(['deletes'], message);
  }
  const why = 'beside key: none: its records would be other ones with each change';
  if (entity.explode !== null) note(['explode'], `expected none ${why}`);
  if (entity.recursive !== null) note(['recursive'], `expected none ${why}`);
  if (entity.actions.get !== undefined) {
    note(['actions', 'get'], 'expected none beside key: none: nothing names one record');
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
        check.note([...at, 'values', position], message);
      }
    });
  });
}

/** Checks `whole`: the fields that prove a record complete must come with the record itself. */
function checkWhole({ entity, note, field }: EntityCheck): void {
  const { recursive, parents, inject: own = {} } = entity;
  const ofTree =
    recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
  const filledIn = new Set([
    ...ofTree,
    ...Object.keys(own),
    ...parents.flatMap(({ inject }) => Object.keys(inject)),
  ]);
  entity.whole.forEach((name, index) => {
    field(['whole', index], name);
    if (!filledIn.has(name)) return;
    note(['whole', index], `expected a field that the service sends, ${name} is filled in from the listing`);
  });
}

function checkWindow({ entity, note, param }: EntityCheck): void {
  const { window, pagination, fixedParams } = entity;
  if (window === null) return;
  const paging = pagingParams(pagination).map(({ name }) => name);
  for (const bound of ['since', 'before'] as const) {
    const name = window[bound];
    const at = ['window', bound];
    param(at, name, ['string']);
    if (paging.includes(name) || Object.hasOwn(fixedParams, name)) {
      note(at, `${name} is set elsewhere: it cannot have two values`);
    }
  }
  if (window.since === window.before) {
    note(['window'], `expected two parameters, got ${window.since} for both bounds`);
  }
}

/** A listing can be read from its other end if both orders use the same time. */
function checkCut(check: EntityCheck): void {
  const { entity, note, field: checkField } = check;
  const { reversed } = entity.cut ?? {};
  if (reversed === undefined) return;
  const here = ['cut', 'reversed'];
  const { order, incremental } = entity;
  if (order === null) note(here, 'expected an order, whose opposite it is');
  else if (incremental === null || incremental.kind === 'windows') {
    checkField(['order', 'field'], order.field, ['string']);
  } else if (incremental.field !== order.field) {
    const message = `expected the order to sort by the field of incremental, ${incremental.field}, got ${order.field}`;
    note(here, message);
  }
  if (entity.recursive !== null) note(here, 'expected no tree: listings inside listings have one order');
  if (Object.keys(reversed).length === 0) note(here, 'expected the parameters that sort newest first');
  checkSorting(check, reversed, here);
}
