import { memberOf, type JsonObject, type JsonValue } from '../core/json.ts';
import type { ConnectorName } from '../core/names.ts';
import type { EntityTable, RowContent } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { fieldReader } from './field-value.ts';
import { conditionMatcher } from './match-condition.ts';
import { readFilter } from './read-request.ts';
import { everyColumn, searchTarget } from './search-target.ts';

/**
 * The filter of a search, for rows of any sink and for records as they came, one by one: of every column, searchable or
 * not. Of an entity whose arrays are exploded its own records are meant. Throws SEARCH_INVALID.
 */
export function rowMatcher(
  { connector, entity, table }: Readonly<{ connector: ConnectorName; entity: Entity; table: EntityTable }>,
  filter: JsonValue,
) {
  const own: Entity = {
    ...entity,
    explode: null,
    explodedTable: null,
    searchable: new Map([
      ...everyColumn(table.columns),
      ...(entity.explode === null ? entity.searchable : []),
    ]),
  };
  const target = searchTarget(own, connector, () => table);
  const meets = conditionMatcher(readFilter(filter, target, '--where'));
  const indexes = new Map(table.columns.map(({ name }, index) => [name, index]));
  const fields = [...target.fields.values()].map((field) => ({
    name: field.name,
    read: fieldReader(field),
    sources: field.sources.map((source) =>
      source.kind === 'column' ? (indexes.get(source.column) ?? -1) : -1,
    ),
    members: field.sources.map((source) => (source.kind === 'extra' ? source.name : source.column)),
  }));
  const matching = (valueOf: (field: (typeof fields)[number]) => JsonValue): boolean => {
    const record = Object.create(null) as Record<string, JsonValue>;
    for (const field of fields) record[field.name] = valueOf(field);
    return meets(record);
  };
  return {
    // A field without a column is a member of `_extra`.
    row: ({ values, extra }: Pick<RowContent, 'values' | 'extra'>) =>
      matching(({ read, sources }) =>
        read(sources.map((index) => (index < 0 ? extra : (values[index] ?? null)))),
      ),
    // Whatever types its values have: it may have been refused for them.
    record: (record: JsonObject) =>
      matching(
        ({ members }) =>
          members.map((name) => memberOf(record, name) ?? null).find((one) => one !== null) ?? null,
      ),
  };
}
