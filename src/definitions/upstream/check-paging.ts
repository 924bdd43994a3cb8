import type { Note } from '../check-names.ts';
import type { EntityFile } from '../definition-file.ts';
import { keyOfToken } from '../pagination-file.ts';
import type { YamlPath } from '../read-yaml.ts';
import { recordsPlace } from './records-file.ts';
import type { ListRequestFile, PagingFile } from './upstream-file.ts';

type Pagination = EntityFile['pagination'];

/** What the kinds become: tokens of `pagination` by token, or offsets. A new kind does not compile until it is here. */
const becomes: Readonly<Record<Exclude<PagingFile['kind'], 'none'>, Pagination['kind']>> = {
  cursor: 'pageToken',
  lastRecord: 'pageToken',
  nextUrl: 'pageToken',
  linkHeader: 'pageToken',
  offset: 'offset',
  page: 'offset',
};

/**
 * The service's paging fits the one that the entity declares, and what the engine reads of an answer is written once.
 */
export function checkPaging(
  { paging, metadata, records }: ListRequestFile,
  pagination: Pagination,
  at: YamlPath,
  paginationAt: YamlPath,
  note: Note,
): void {
  const pagingAt = [...at, 'paging'];
  if (recordsPlace(records).isOne && pagination.kind !== 'single') {
    note([...at, 'records'], oneIsSingle(pagination), paginationAt);
  }
  if (paging.kind !== 'none' && (pagination.kind === 'page' || pagination.kind === 'lastRecord')) {
    const message = `expected no paging: by ${pagination.kind}, the pagination of the entity is the service's own`;
    note([...pagingAt, 'kind'], message, paginationAt);
    return;
  }
  if (paging.kind !== 'none' && pagination.kind !== becomes[paging.kind]) {
    const message = `${paging.kind} expects pagination by ${becomes[paging.kind]}, got ${pagination.kind}`;
    note([...pagingAt, 'kind'], message, paginationAt);
    return;
  }
  const written = keysWritten(paging, pagination);
  for (const key of Object.keys(metadata)) {
    if (written.includes(key)) note([...at, 'metadata', key], 'is written by paging: leave it out', pagingAt);
  }
  if (paging.kind === 'none' && pagination.kind === 'pageToken') {
    const tokenKeys = pagination.tokenKeys.map(keyOfToken);
    if (
      !tokenKeys.some((key) => [key, key.split('.')[0] ?? ''].some((name) => Object.hasOwn(metadata, name)))
    ) {
      const message = `expected one of ${tokenKeys.join(', ')}, the tokenKeys of the entity, or a paging`;
      note([...at, 'metadata'], message, [...at, 'metadata'], pagingAt, paginationAt);
    }
  }
  if (
    paging.kind !== 'none' &&
    pagination.kind === 'pageToken' &&
    typeof pagination.tokenKeys[0] === 'object'
  ) {
    const message = `${paging.kind} writes the token itself: expected a key without param as the first of tokenKeys`;
    note([...pagingAt, 'kind'], message, paginationAt);
  }
  const total = 'total' in paging ? paging.total : null;
  if (total !== null && pagination.kind === 'offset' && pagination.totalKeys.length === 0) {
    note(
      [...pagingAt, 'total'],
      'expected totalKeys in the pagination of the entity beside it',
      paginationAt,
    );
  }
}

/** Keys of the metadata that a translated paging sets. */
function keysWritten({ kind }: PagingFile, pagination: Pagination): readonly string[] {
  if (kind === 'none') return [];
  switch (pagination.kind) {
    case 'single':
      return [];
    case 'page':
    case 'lastRecord':
    case 'offset':
      return pagination.totalKeys;
    case 'pageToken':
      return [...pagination.tokenKeys.map(keyOfToken), ...pagination.flagKeys];
  }
}

/** For where one object is all that a listing has. */
export function oneIsSingle({ kind }: Pick<Pagination, 'kind'>): string {
  return `one record expects pagination of kind single, got ${kind}`;
}
