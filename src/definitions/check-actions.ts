import type { Params } from '../core/records.ts';
import { checkParamName, checkTwice, type Note, type EntityCheck, listParamAt } from './check-names.ts';
import { checkParam, checkParams } from './check-params.ts';
import { clockProblem, isClockValue, withTimes } from './clock-value.ts';
import type { ActionFile } from './definition-file.ts';
import { buildAction, type Action, type Param } from './definition.ts';
import { checkPagination } from './check-pagination.ts';
import { pagingParams } from './paging-params.ts';
import { suggestName } from './suggest-name.ts';
import type { YamlPath } from './read-yaml.ts';

/** Actions, their parameters, and what the definition sends with every `list` call: paging, order, fixed ones. */
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
      const message = `no such parameter${suggestName(param, action.params.keys())}`;
      note([...at, 'key', param], message, [...at, 'params', param]);
    }
    checkField([...at, 'key', param], field);
  }
  for (const [param, { required }] of action.params) {
    if (required && !action.key.has(param)) {
      const message = `is missing ${param}: say which field of the record holds its value`;
      note([...at, 'key'], message, [...at, 'params', param]);
    }
  }
}

function checkDeclaration(name: string, param: Param, at: YamlPath, note: Note): void {
  const typeAt = [...at, 'type'];
  checkParamName(name, at, note);
  if (param.enum !== null && param.type !== 'string') {
    note([...at, 'enum'], `expected only on a string, this one is of type ${param.type}`, typeAt);
  }
  if ((param.min !== null || param.max !== null) && param.type !== 'integer') {
    note(at, `expected min and max only on an integer, this one is of type ${param.type}`, typeAt);
  }
  if (param.min !== null && param.max !== null && param.min > param.max) {
    note([...at, 'min'], `expected at most max (${param.max}), got ${param.min}`, [...at, 'max']);
  }
  if (param.default !== null) {
    for (const message of checkParam('default', param, param.default)) {
      note([...at, 'default'], message, at);
    }
  }
  if (param.members !== undefined) {
    if (param.type !== 'object') {
      note([...at, 'members'], `expected only on an object, this one is of type ${param.type}`, typeAt);
    }
    for (const [member, declared] of param.members) {
      checkDeclaration(member, declared, [...at, 'members', member], note);
    }
  }
}

/** Fixed parameters: values, and times of the clock, which are checked as they are sent. */
function checkFixed(check: EntityCheck, { params }: Action): void {
  const { entity, note } = check;
  const sound = Object.entries(entity.fixedParams).filter(([name, value]) => {
    const param = params.get(name);
    if (param === undefined || !isClockValue(value, param)) return true;
    const problem = clockProblem(value, param);
    if (problem !== null) note(['fixedParams', name], problem, listParamAt(name));
    else if (
      entity.deletes === 'sweep' ||
      (entity.deletes === 'confirm' && entity.actions.get === undefined)
    ) {
      const message = `expected never, or confirm and a get: with ${name} each run lists another span of time`;
      note(['deletes'], message, ['fixedParams', name], ['actions', 'get']);
    }
    return problem === null;
  });
  checkSent(check, withTimes(Object.fromEntries(sound), params, 0), ['fixedParams']);
}

/**
 * Parameters that the definition sends with list calls: declared, of the right type, and not those of the pagination.
 */
function checkSent({ entity, note }: EntityCheck, sent: Params, place: YamlPath): void {
  const list = buildAction(entity.actions.list ?? { params: {}, key: {} });
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  for (const [name, value] of Object.entries(sent)) {
    const at = [...place, name];
    for (const message of checkParams(list, { [name]: value })) note(at, message, listParamAt(name));
    if (paging.includes(name)) note(at, 'is set by the pagination: leave it out', ['pagination']);
  }
}

/** Parameters that sort a listing: sent with list calls, and not among those that always are. */
export function checkSorting(
  check: EntityCheck,
  params: Params,
  at: YamlPath,
  ...restsOn: readonly YamlPath[]
): void {
  checkSent(check, params, at);
  for (const name of Object.keys(params)) {
    if (!Object.hasOwn(check.entity.fixedParams, name)) continue;
    check.note([...at, name], 'is also a fixed parameter: name it in one place', ...restsOn);
  }
}

const typeByRole = { name: 'string', contentType: 'string', size: 'integer' } as const;

/**
 * What a record says about its file stands in its fields; its parameters and their key are checked as those of `get`
 * are.
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
    const message = 'expected at least one parameter: nothing else says which file is asked for';
    note([...at, 'key'], message, at);
  }
  for (const role of ['name', 'contentType', 'size'] as const) {
    const field = download.file[role];
    if (field !== null) checkField([...at, 'file', role], field, [typeByRole[role]]);
  }
  const { version } = download.file;
  const versionAt = [...at, 'file', 'version'];
  fields(versionAt, version);
  checkTwice(version, versionAt, note);
}
