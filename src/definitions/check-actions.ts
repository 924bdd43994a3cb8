import type { Params } from '../core/records.ts';
import { buildAction } from './build-action.ts';
import { checkField } from './check-fields.ts';
import { checkRemoteName, type Note, checkKnown } from './check-names.ts';
import { checkParam, checkParams } from './check-params.ts';
import type { ActionFile, EntityFile } from './definition-file.ts';
import type { Action, Param } from './definition.ts';
import { pagingParams } from './paging-params.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import type { YamlPath } from './yaml-places.ts';

/** Actions, their parameters, and what the definition sends with every `list` call: paging, order, fixed ones. */
export function checkActions(entity: EntityFile, at: YamlPath, note: Note): void {
  for (const [name, action] of Object.entries(entity.actions)) {
    if (action !== undefined) checkAction(name, action, entity, at, note);
  }
  checkDownload(entity, at, note);
  if (entity.actions.list === undefined) {
    note([...at, 'actions'], 'is missing list; every entity is read by its list action');
    return;
  }
  const list = buildAction(entity.actions.list);
  checkPagination(entity, list, at, note);
  checkSent(entity, entity.fixedParams, at, ['fixedParams'], note);
  if (entity.order !== null) {
    checkSent(entity, entity.order.params, at, ['order', 'params'], note);
    for (const name of Object.keys(entity.order.params)) {
      if (Object.hasOwn(entity.fixedParams, name)) {
        note([...at, 'order', 'params', name], 'is also a fixed parameter: name it in one place');
      }
    }
  }
}

function checkAction(
  name: string,
  file: ActionFile,
  entity: EntityFile,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'actions', name];
  const action = buildAction(file);
  for (const [param, declared] of action.params) {
    checkDeclaration(param, declared, [...at, 'params', param], note);
  }
  if (name !== 'get' && name !== 'download') {
    if (action.key.size > 0) note([...at, 'key'], 'belongs to the actions get and download only');
    return;
  }
  const fields = Object.keys(entity.fields);
  for (const [param, field] of action.key) {
    if (!action.params.has(param)) {
      const message = `no such parameter${suggestName(param, action.params.keys())}`;
      note([...at, 'key', param], message, [...at, 'params', param]);
    }
    if (!fields.includes(field)) {
      note([...at, 'key', param], noSuch('field', field, fields), [...entityAt, 'fields', field]);
    }
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
  checkRemoteName(name, at, note);
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

function checkPagination(entity: EntityFile, list: Action, entityAt: YamlPath, note: Note): void {
  const at = [...entityAt, 'pagination'];
  const kindAt = [...at, 'kind'];
  const declarationOf = (name: string | null): YamlPath => [
    ...entityAt,
    'actions',
    'list',
    'params',
    name ?? '',
  ];
  const { pagination } = entity;
  if (pagination.kind === 'single') return;
  for (const { role, name, type } of pagingParams(pagination)) {
    const param = list.params.get(name);
    if (param?.type !== type) {
      const got = param === undefined ? 'is not declared' : `is of type ${param.type}`;
      const message = `expected a list parameter of type ${type}; ${name} ${got}`;
      note([...at, role], message, kindAt, declarationOf(name));
    }
  }
  const size = pagination.sizeParam === null ? null : (list.params.get(pagination.sizeParam)?.max ?? null);
  if (size !== null && pagination.maxSize !== null && pagination.maxSize > size) {
    const message = `expected at most ${size}, the max of ${pagination.sizeParam}`;
    note([...at, 'maxSize'], message, kindAt, [...at, 'sizeParam'], declarationOf(pagination.sizeParam));
  }
  if ((pagination.sizeParam === null) !== (pagination.maxSize === null)) {
    note([...at, 'maxSize'], 'expected maxSize and sizeParam together, or neither', kindAt);
  }
}

/** Parameters that the definition sends with list calls: declared, of the right type, and not those of the pagination. */
export function checkSent(
  entity: EntityFile,
  sent: Params,
  entityAt: YamlPath,
  place: YamlPath,
  note: Note,
): void {
  const list = buildAction(entity.actions.list ?? { params: {}, key: {} });
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  for (const [name, value] of Object.entries(sent)) {
    const at = [...entityAt, ...place, name];
    for (const message of checkParams(list, { [name]: value })) {
      note(at, message, [...entityAt, 'actions', 'list', 'params', name]);
    }
    if (paging.includes(name)) {
      note(at, 'is set by the pagination: leave it out', [...entityAt, 'pagination']);
    }
  }
}

const typeByRole = { name: 'string', contentType: 'string', size: 'integer' } as const;

/** What a record says about its file stands in its fields; its parameters and their key are checked as those of `get` are. */
function checkDownload(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  const { download } = entity.actions;
  if (download === undefined) return;
  const at = [...entityAt, 'actions', 'download'];
  // Missing required ones are already reported.
  if (
    Object.keys(download.key).length === 0 &&
    !Object.values(download.params).some(({ required }) => required)
  ) {
    const message = 'expected at least one parameter: nothing else says which file is asked for';
    note([...at, 'key'], message, at);
  }
  const fields = Object.keys(entity.fields);
  const fieldAt = (field: string): YamlPath => [...entityAt, 'fields', field];
  for (const role of ['name', 'contentType', 'size'] as const) {
    const field = download.file[role];
    if (field === null) continue;
    checkField(entity, field, [typeByRole[role]], { at: [...at, 'file', role], entityAt }, note);
  }
  const { version } = download.file;
  const versionAt = [...at, 'file', 'version'];
  checkKnown(version, fields, 'field', versionAt, note, (field) => [fieldAt(field)]);
  version.forEach((field, index) => {
    if (version.indexOf(field) !== index) note([...versionAt, index], `${field} is named twice`);
  });
}
