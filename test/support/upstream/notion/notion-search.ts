import { isJsonObject, type JsonObject, type JsonValue } from '../../../../src/core/json.ts';
import type { SampleAccount } from '../../../../src/sample/sample-account.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import { allOf } from '../wire-account.ts';
import { expected, refuseOthers } from './notion-checks.ts';
import type { NotionListing } from './notion-pages.ts';

/** The listing that a body of `POST /search` asks for. Throws 400 for what the service does not know. */
export function searchListing(account: SampleAccount, body: JsonObject): NotionListing {
  const { query, filter, sort } = body;
  const wanted = wantedKind(filter);
  const isAscending = directionOf(sort) === 'ascending';
  const found = [
    ...(wanted === 'data_source' ? [] : allOf(account.list('pages', kindFilter('page')))),
    ...(wanted === 'page' ? [] : allOf(account.list('data_sources', kindFilter('data_source')))),
  ].filter((record) => typeof query !== 'string' || titleOf(record).includes(query.toLowerCase()));
  const editedAt = (record: JsonObject): number => Date.parse(textOf(record['last_edited_time']));
  return {
    name: JSON.stringify(['search', query, filter, sort]),
    records: found.toSorted((left, right) => (isAscending ? 1 : -1) * (editedAt(left) - editedAt(right))),
    sortedBy: { field: 'last_edited_time', isAscending },
  };
}

function kindFilter(value: string): JsonObject {
  return { filter: { property: 'object', value } };
}

function wantedKind(filter: JsonValue | undefined): string | null {
  if (filter === undefined) return null;
  const { property, value, ...rest } = isJsonObject(filter) ? filter : {};
  refuseOthers('body.filter', rest);
  if (property !== 'object') throw expected('body.filter.property', '"object"', property);
  if (value !== 'page' && value !== 'data_source') {
    throw expected('body.filter.value', '"page"` or `"data_source"', value);
  }
  return value;
}

function directionOf(sort: JsonValue | undefined): string {
  if (sort === undefined) return 'descending';
  const { timestamp, direction, ...rest } = isJsonObject(sort) ? sort : {};
  refuseOthers('body.sort', rest);
  if (timestamp !== 'last_edited_time') {
    throw expected('body.sort.timestamp', '"last_edited_time"', timestamp);
  }
  if (direction !== 'ascending' && direction !== 'descending') {
    throw expected('body.sort.direction', '"ascending"` or `"descending"', direction);
  }
  return direction;
}

function titleOf(record: JsonObject): string {
  const own = record['title'] ?? titleProperty(record['properties']);
  const pieces = Array.isArray(own) ? own.filter(isJsonObject) : [];
  return pieces
    .map((piece) => textOf(piece['plain_text']))
    .join('')
    .toLowerCase();
}

function titleProperty(properties: JsonValue | undefined): JsonValue | undefined {
  const found = Object.values(isJsonObject(properties) ? properties : {}).find(
    (property) => isJsonObject(property) && property['type'] === 'title',
  );
  return isJsonObject(found) ? found['title'] : undefined;
}
