import type { EntityTable, FieldType } from '../../core/records.ts';
import type { Entity, Explode } from '../../definitions/definition.ts';
import type { ConnectorSettings, PublishSettings } from '../../settings/settings.ts';
import { tableName } from '../../sinks/postgres/records/names.ts';
import type { PublishedEntity } from '../manifest.ts';
import { freshnessOf } from './freshness.ts';
import { pathsOf, placeOf, type CataloguePlace, type StateFile, type TablePaths } from './place.ts';
import { entityName, type PublishedState } from './read-published.ts';

/** What generated text is about: the tables of one target, or those that the definitions would give. */
export interface Catalogue {
  readonly place: CataloguePlace;
  /** The newest publication; null: nothing is published, so names and columns are those of the definitions. */
  readonly publication: number | null;
  readonly tables: readonly CatalogueTable[];
}

export interface CatalogueTable {
  readonly connector: string;
  readonly entity: string;
  /** Of the connector type, for people. */
  readonly title: string;
  /** `<connector>__<entity>`, at most 63 bytes; no other table has it. */
  readonly name: string;
  readonly generation: number;
  readonly schema: number;
  readonly key: readonly string[];
  /** As they are in files and tables; the program's own are not among them. */
  readonly columns: readonly CatalogueColumn[];
  readonly joins: readonly Join[];
  /** In the words of a description: what becomes of deleted records. */
  readonly deletes: string;
  /** How long rows may stay as they are before somebody should look; null: not known. */
  readonly staleAfterMs: number | null;
  readonly paths: TablePaths;
}

export interface CatalogueColumn {
  readonly name: string;
  /** Its name in the sink. */
  readonly field: string;
  readonly type: FieldType;
}

/** A row's `columns` are the `parentColumns` of at most one row of the parent. */
export interface Join {
  readonly columns: readonly string[];
  readonly parent: string;
  readonly parentColumns: readonly string[];
  /** Rows stay when their parent is deleted: events. */
  readonly outlivesParent: boolean;
}

/** `published`: null where nothing is. `target`: null where the config has none. */
export function catalogueOf(
  connectors: readonly ConnectorSettings[],
  target: PublishSettings | null,
  published: PublishedState | null,
): Catalogue {
  const declared = connectors.flatMap(declaredTables);
  const newest = published?.newest ?? null;
  const tables =
    newest === null
      ? declared.map((one) => tableOf(one, declaredEntity(one), target, null))
      : newest.entities.map((entity) => {
          const found = declared.find(
            ({ connector, table }) => connector.name === entity.connector && table.entity === entity.entity,
          );
          const files = published?.files?.get(entityName(entity)) ?? null;
          return tableOf(found ?? null, entity, target, files);
        });
  return {
    place: placeOf(target),
    publication: newest?.publication ?? null,
    tables: tables.map((table) => ({
      ...table,
      joins: table.joins.flatMap((join) => named(join, table, tables)),
    })),
  };
}

/** A join between the columns as they are called in the target; none where one of them is not there. */
function named(join: Join, child: CatalogueTable, tables: readonly CatalogueTable[]): readonly Join[] {
  const parent = tables.find(
    ({ connector, entity }) => connector === child.connector && entity === join.parent,
  );
  const nameIn = (table: CatalogueTable, field: string): readonly string[] =>
    table.columns.flatMap((column) => (column.field === field ? [column.name] : []));
  if (parent === undefined) return [];
  const columns = join.columns.flatMap((field) => nameIn(child, field));
  const parentColumns = join.parentColumns.flatMap((field) => nameIn(parent, field));
  const isWhole = columns.length === join.columns.length && parentColumns.length === columns.length;
  return isWhole ? [{ ...join, columns, parentColumns }] : [];
}

interface Declared {
  readonly connector: ConnectorSettings;
  readonly entity: Entity;
  readonly table: EntityTable;
  readonly explode: Explode | null;
}

function declaredTables(connector: ConnectorSettings): readonly Declared[] {
  const { definition, entities } = connector;
  return [...definition.entities.values()]
    .filter(({ name }) => entities.has(name))
    .flatMap((entity): Declared[] => {
      const own = { connector, entity, table: entity.table, explode: null };
      const { explodedTable, explode } = entity;
      return explodedTable === null ? [own] : [own, { connector, entity, table: explodedTable, explode }];
    });
}

type Published = Pick<PublishedEntity, 'connector' | 'entity' | 'generation' | 'schema' | 'key' | 'columns'>;

function declaredEntity({ connector, table }: Declared): Published {
  const columns = table.columns.map(({ name, type }) => ({ name, field: name, type }));
  const first = { generation: 1, schema: 1 };
  return { connector: connector.name, entity: table.entity, ...first, key: table.key, columns };
}

function tableOf(
  declared: Declared | null,
  published: Published,
  target: PublishSettings | null,
  files: readonly StateFile[] | null,
): CatalogueTable {
  const { connector, entity, generation, schema, key, columns } = published;
  return {
    connector,
    entity,
    title: declared?.connector.definition.title ?? connector,
    name: tableName(connector, entity),
    generation,
    schema,
    key,
    columns,
    joins: declared === null ? [] : joinsOf(declared),
    deletes: deletesOf(declared),
    staleAfterMs: declared === null ? null : freshnessOf(declared.connector, declared.entity.name),
    paths: pathsOf(published, target, files),
  };
}

/** Where several kinds of parents fill the same column, no join is true of every row. */
function joinsOf({ connector, entity, explode }: Declared): readonly Join[] {
  if (explode !== null) {
    const isCarried = entity.key.every((part) => explode.carry.includes(part));
    return isCarried
      ? [{ columns: entity.key, parent: entity.name, parentColumns: entity.key, outlivesParent: false }]
      : [];
  }
  const chosen = connector.entities.get(entity.name)?.parents ?? [];
  const joins = entity.parents
    .filter((parent) => chosen.includes(parent.entity) && parent.inject.size > 0)
    .map(({ entity: parent, inject, params }): Join => {
      const pairs = [...inject].flatMap(([column, param]) => {
        const field = params.get(param);
        return field === undefined ? [] : [[column, field] as const];
      });
      const [columns, parentColumns] = [pairs.map(([column]) => column), pairs.map(([, field]) => field)];
      const parentDeletes = connector.definition.entities.get(parent)?.deletes ?? 'never';
      return {
        columns,
        parent,
        parentColumns,
        outlivesParent: entity.deletes === 'never' && parentDeletes !== 'never',
      };
    });
  const [first, ...others] = joins;
  return first === undefined || others.length > 0 || first.columns.length === 0 ? [] : [first];
}

function deletesOf(declared: Declared | null): string {
  if (declared === null) return 'Deleted records are marked or left out.';
  if (declared.explode !== null || declared.entity.deletes === 'never') return 'Records are never deleted.';
  return 'Records that are gone at the source are marked or left out once a read of the whole entity has shown it.';
}
