import type { Params } from '../core/records.ts';
import { buildAction } from './build-action.ts';
import type { Note } from './check-names.ts';
import { checkParam, checkParams } from './check-params.ts';
import type { Action, Param } from './definition.ts';
import type { ActionFile, EntityFile } from './definition-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { pagingParams } from './paging-params.ts';
import { suggestName } from './suggest-name.ts';

const paramName = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

/** Actions, their parameters, and what the definition sends with every `list` call: paging, order, fixed ones. */
export function checkActions(entity: EntityFile, at: YamlPath, note: Note): void {
  for (const [name, action] of Object.entries(entity.actions)) {
    if (action !== undefined) {
      checkAction(name, action, entity, [...at, 'actions', name], note);
    }
  }
  if (entity.actions.list === undefined) {
    note([...at, 'actions'], 'is missing list; every entity is read by its list action');
    return;
  }
  const list = buildAction(entity.actions.list);
  checkPagination(entity, list, [...at, 'pagination'], note);
  checkSent(entity.fixedParams, list, entity, [...at, 'fixedParams'], note);
  if (entity.order !== null) {
    checkSent(entity.order.params, list, entity, [...at, 'order', 'params'], note);
    for (const name of Object.keys(entity.order.params)) {
      if (Object.hasOwn(entity.fixedParams, name)) {
        note([...at, 'order', 'params', name], 'is also a fixed parameter: name it in one place');
      }
    }
  }
}

function checkAction(name: string, file: ActionFile, entity: EntityFile, at: YamlPath, note: Note): void {
  const action = buildAction(file);
  for (const [param, declared] of action.params) {
    checkDeclaration(param, declared, [...at, 'params', param], note);
  }
  if (name !== 'get') {
    if (action.key.size > 0) {
      note([...at, 'key'], 'belongs to the get action only');
    }
    return;
  }
  const fields = Object.keys(entity.fields);
  for (const [param, field] of action.key) {
    if (!action.params.has(param)) {
      note([...at, 'key', param], `no such parameter${suggestName(param, action.params.keys())}`);
    }
    if (!fields.includes(field)) {
      note([...at, 'key', param], `no such field: ${JSON.stringify(field)}${suggestName(field, fields)}`);
    }
  }
  for (const [param, { required }] of action.params) {
    if (required && !action.key.has(param)) {
      note([...at, 'key'], `is missing ${param}: say which field of the record holds its value`);
    }
  }
}

function checkDeclaration(name: string, param: Param, at: YamlPath, note: Note): void {
  if (!paramName.test(name)) {
    note(at, 'expected a letter, then letters, digits, "_", "-" or ".", at most 64 characters');
  }
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

function checkPagination(entity: EntityFile, list: Action, at: YamlPath, note: Note): void {
  const { pagination } = entity;
  if (pagination.kind === 'single') {
    return;
  }
  const wanted =
    pagination.kind === 'offset'
      ? ([
          ['offsetParam', pagination.offsetParam, 'integer'],
          ['sizeParam', pagination.sizeParam, 'integer'],
        ] as const)
      : ([
          ['tokenParam', pagination.tokenParam, 'string'],
          ['sizeParam', pagination.sizeParam, 'integer'],
        ] as const);
  for (const [role, name, type] of wanted) {
    const param = name === null ? undefined : list.params.get(name);
    if (name !== null && param?.type !== type) {
      const got = param === undefined ? 'is not declared' : `is of type ${param.type}`;
      note([...at, role], `expected a list parameter of type ${type}; ${name} ${got}`);
    }
  }
  const size = pagination.sizeParam === null ? null : (list.params.get(pagination.sizeParam)?.max ?? null);
  if (size !== null && pagination.maxSize !== null && pagination.maxSize > size) {
    note([...at, 'maxSize'], `expected at most ${size}, the max of ${pagination.sizeParam}`);
  }
  if ((pagination.sizeParam === null) !== (pagination.maxSize === null)) {
    note([...at, 'maxSize'], 'expected maxSize and sizeParam together, or neither');
  }
}

function checkSent(sent: Params, list: Action, entity: EntityFile, at: YamlPath, note: Note): void {
  const paging = pagingParams(entity.pagination);
  for (const [name, value] of Object.entries(sent)) {
    for (const message of checkParams(list, { [name]: value })) {
      note([...at, name], message);
    }
    if (paging.includes(name)) {
      note([...at, name], 'is set by the pagination: leave it out');
    }
  }
}
