import { fieldAt, fieldType, listParamAt, type EntityCheck } from './check-names.ts';
import type { Action } from './definition.ts';
import type { EntityFile } from './definition-file.ts';
import { keyOfToken } from './pagination-file.ts';
import { pagingParams } from './paging-params.ts';
import type { YamlPath } from './read-yaml.ts';
import { queryName } from './upstream/sent-texts.ts';

type PaginationFile = EntityFile['pagination'];

const at: YamlPath = ['pagination'];
const kindAt: YamlPath = [...at, 'kind'];

/** The parameters and keys of a pagination, and the field that a token comes from. */
export function checkPagination(check: EntityCheck, list: Action): void {
  const { pagination } = check.entity;
  checkPagingParams(check, list, pagination);
  checkSize(check, list, pagination);
  checkKeys(check, pagination);
  if (pagination.kind === 'lastRecord') checkTokenField(check, pagination.field);
}

function checkPagingParams({ note }: EntityCheck, list: Action, pagination: PaginationFile): void {
  const params = pagingParams(pagination);
  for (const { role, name, types } of params) {
    const param = list.params.get(name);
    if (!types.some((type) => type === param?.type)) {
      const got = param === undefined ? 'is not declared' : `is of type ${param.type}`;
      const message = `expected a list parameter of type ${types.join(' or ')}; ${name} ${got}`;
      note([...at, role], message, kindAt, listParamAt(name));
    }
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
    const message = `expected at most ${most}, the max of ${sizeParam}`;
    note(sizeAt, message, kindAt, [...at, 'sizeParam'], listParamAt(sizeParam ?? ''));
  }
  if (pagination.kind !== 'page' && (sizeParam === null) !== (maxSize === null)) {
    note(sizeAt, 'expected maxSize and sizeParam together, or neither', kindAt);
  }
  if ('honoursSize' in pagination && pagination.honoursSize === true && sizeParam === null) {
    const message = 'expected sizeParam beside it: without one, no page has a size that was asked for';
    note([...at, 'honoursSize'], message, kindAt, [...at, 'sizeParam']);
  }
}

function checkKeys({ note }: EntityCheck, pagination: PaginationFile): void {
  const keys = {
    totalKeys: pagination.totalKeys,
    flagKeys: ('flagKeys' in pagination ? pagination.flagKeys : undefined) ?? [],
    tokenKeys: pagination.kind === 'pageToken' ? pagination.tokenKeys.map(keyOfToken) : [],
  };
  const known = new Map<string, string>();
  for (const [role, named] of Object.entries(keys)) {
    named.forEach((key, index) => {
      const here = [...at, role, index];
      if (key.split('.').includes('')) {
        note(here, `expected a name, or names joined by dots, got ${JSON.stringify(key)}`, kindAt);
      }
      const other = known.get(key);
      if (other !== undefined) note(here, `${key} is also among ${other}`, kindAt);
      known.set(key, role);
    });
  }
  if (pagination.kind !== 'pageToken') return;
  pagination.tokenKeys.forEach((key, index) => {
    if (typeof key === 'string') return;
    queryName(key.param, (message) => note([...at, 'tokenKeys', index, 'param'], message));
  });
}

/** What the last record brings by itself. */
function checkTokenField({ entity, note, field: checkField }: EntityCheck, path: string): void {
  const here = [...at, 'field'];
  const [first = '', ...rest] = path.split('.');
  if (first === '' || rest.includes('')) {
    note(here, `expected names joined by dots, got ${JSON.stringify(path)}`, kindAt);
    return;
  }
  if (entity.ignored.includes(first)) return;
  const types = rest.length > 0 ? ['object', 'any'] : ['string', 'integer', 'any'];
  checkField(here, first, types);
  const filled = entity.parents.find(({ inject }) => Object.hasOwn(inject, first));
  if (fieldType(entity, first) === undefined || filled === undefined) return;
  const message = `expected a field that differs from record to record, ${first} is filled in from the listing`;
  note(here, message, kindAt, fieldAt(first), ['parents']);
}
