import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { Catalogue, CatalogueColumn, CatalogueTable } from '../../../src/publish/schema/catalogue.ts';

/** Two tables with every type of column, names that are words of some dialect or no plain names at all, and a join. */
export function smallCatalogue(place: Catalogue['place']): Catalogue {
  const format = place !== null && 'format' in place ? place.format : 'parquet';
  const table = (entity: string, more: Partial<CatalogueTable>): CatalogueTable => ({
    connector: 'shop' as ConnectorName,
    entity: entity as EntityName,
    title: 'Shop {{ hostile }} {% title %}',
    description: null,
    versionsOf: null,
    name: `shop__${entity}`,
    generation: 1,
    schema: 1,
    key: ['id'],
    columns: [],
    joins: [],
    deletes: 'Records are never deleted.',
    staleAfterMs: null,
    glob: `shop/${entity}/g1/*/*-*.${format}`,
    files: null,
    ...more,
  });
  const column = (name: string, type: CatalogueColumn['type'], description: string | null = null) => ({
    name,
    field: name,
    type,
    description,
  });
  return {
    place,
    publication: 3,
    tables: [
      table('orders', {
        description: 'What people\nordered: {{ hostile }}',
        columns: [column('id', 'integer'), column('total', 'number', 'In euros; {{ hostile }} {# words #}')],
      }),
      table('order_lines', {
        generation: 2,
        schema: 2,
        key: ['order', 'id'],
        columns: [
          column('order', 'integer'),
          column('id', 'string'),
          column('is_gift', 'boolean'),
          column('details', 'object'),
          column("it's", 'string'),
        ],
        joins: [
          {
            columns: ['order'],
            parent: 'orders' as EntityName,
            parentColumns: ['id'],
          },
        ],
        staleAfterMs: 7_200_000,
        glob: `shop/order_lines/g2/*/*-*.${format}`,
        files: [
          {
            path: `shop/order_lines/g2/snapshot/00000002-0001-0123abcd.${format}`,
            bytes: 512,
            columns: ['order', 'id'],
          },
          {
            path: `shop/order_lines/g2/changes/00000003-0001-4567cdef.${format}`,
            bytes: 256,
            columns: ['order', 'id', 'is_gift', 'details', "it's"],
          },
        ],
      }),
    ],
  };
}
