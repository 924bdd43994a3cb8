import type { DescribedTable, TableJoin } from '../../core/records.ts';
import { entityOfHistory } from '../../core/names.ts';
import { describeTables } from '../../definitions/describe-tables.ts';
import { entityName, neededFiles, type PublishedColumn, type PublishedEntity } from '../manifest.ts';
import type { Target } from '../target.ts';
import { defaultLayout } from '../../settings/publish-file.ts';
import type { ConnectorSettings, PublishPlace } from '../../settings/settings.ts';
import { historyTable } from '../../sinks/decisions/stored-table.ts';
import { tableName } from '../../sinks/postgres/column-types.ts';

/** The subject of generated text: the tables of one target, or those that the definitions would give. */
export type Catalogue = Readonly<ReturnType<typeof catalogueOf>>;
export type CatalogueTable = Readonly<ReturnType<typeof tableOf>>;

/** A target of files. */
export type FilesPlace = Extract<PublishPlace, { readonly type: 'files' | 's3' }>;

export interface CatalogueColumn extends PublishedColumn {
  /** The meaning, in the words of the definition; null: it has no description. */
  readonly description: string | null;
}

/** `published`: null where nothing is. */
export function catalogueOf(
  connectors: readonly ConnectorSettings[],
  place: PublishPlace | null,
  published: PublishedState | null,
) {
  const declared = connectors.flatMap(declaredTables);
  const newest = published?.newest ?? null;
  const tables =
    newest === null
      ? declared.map((one) => tableOf(one, declaredEntity(one), place, null))
      : newest.entities.map((entity) => {
          const found = declared.find(
            ({ connector, table }) => connector.name === entity.connector && table.entity === entity.entity,
          );
          const files = published?.files?.get(entityName(entity)) ?? null;
          return tableOf(found ?? null, entity, place, files);
        });
  return {
    /** The place of the rows that generated text reads; null: the config has no target. */
    place,
    /** The newest publication; null: nothing is published, so names and columns are those of the definitions. */
    publication: newest?.publication ?? null,
    tables: tables.map((table): CatalogueTable => ({
      ...table,
      joins: table.joins.flatMap((join) => named(join, table, tables)),
    })),
  };
}

/** A join between the columns under their names in the target; none if one of them is not there. */
function named(
  join: TableJoin,
  child: CatalogueTable,
  tables: readonly CatalogueTable[],
): readonly TableJoin[] {
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

type Declared = ReturnType<typeof declaredTables>[number];

/** `table`: the table of the entity, or of the array that it is exploded into. */
function declaredTables(connector: ConnectorSettings) {
  const { definition, entities } = connector;
  return [...definition.entities.values()]
    .filter(({ name }) => entities.has(name))
    .flatMap((entity) => {
      const { table, explodedTable } = entity;
      const tables = explodedTable === null ? [table] : [table, explodedTable];
      const isKept = (entities.get(entity.name)?.history ?? null) !== null;
      return [...tables, ...(isKept ? tables.map(historyTable) : [])].map((one) => ({
        connector,
        entity,
        table: one,
      }));
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
  place: PublishPlace | null,
  files: readonly StateFile[] | null,
) {
  const { connector, entity, generation, schema, key, columns } = published;
  const described = declared === null ? null : describedTable(declared);
  const versionsOf = entityOfHistory(entity);
  return {
    connector,
    entity,
    /** Title of the connector type, for people. */
    title: declared?.connector.definition.title ?? connector,
    /** Describes the records, in the words of the definition; null: it has no description. */
    description: described?.description ?? null,
    /** The entity whose rows' versions it has; null: its rows are records. */
    versionsOf,
    /** `<connector>__<entity>`, at most 63 bytes; no other table has it. */
    name: tableName(connector, entity),
    generation,
    schema,
    key,
    /** Columns as they are in files and tables, without the program's columns. */
    columns: columns.map((column): CatalogueColumn => ({
      ...column,
      description: described?.columns[column.field] ?? versionColumn(versionsOf, column.field),
    })),
    joins: versionsOf === null ? (described?.joins ?? []) : [],
    /** In the words of a description: what becomes of deleted records. */
    deletes: versionsOf === null ? deletesOf(declared) : 'One row for each version, written once.',
    /** `freshWithin`: how old rows may be before a person should check; null: it is not set. */
    freshWithinMs: declared === null ? null : freshWithinOf(declared),
    /** All files of the generation, snapshots included; relative to the root of the target, with `/`. */
    glob: globOf(published, place),
    /** Files of its state at the newest publication; null: nothing is published. */
    files,
  };
}

function versionColumn(versionsOf: string | null, field: string): string | null {
  if (versionsOf === null) return null;
  if (field === '_version') return 'Number of the change with which the version began';
  return field === '_is_deleted' ? 'The record was deleted from this version on' : null;
}

function globOf({ connector, entity, generation }: Published, place: PublishPlace | null): string {
  const { layout, format } =
    place !== null && 'format' in place ? place : { layout: defaultLayout, format: 'parquet' };
  const known: Readonly<Record<string, string>> = { connector, entity, generation: String(generation) };
  const pattern = layout.replaceAll(/\{([a-z]+)\}/g, (_all, name: string) => known[name] ?? '*');
  return `${pattern}*.${format}`.replaceAll(/\*{2,}/g, '*');
}

function describedTable({ connector, entity, table }: Declared): DescribedTable | null {
  const parents = connector.entities.get(entity.name)?.parents ?? [];
  const name = entityOfHistory(table.entity) ?? table.entity;
  return describeTables(entity, parents).find((one) => one.entity === name) ?? null;
}

function freshWithinOf({ connector, entity }: Declared): number | null {
  return connector.entities.get(entity.name)?.freshWithinMs ?? connector.freshWithinMs;
}

function deletesOf(declared: Declared | null): string {
  if (declared === null) return 'Deleted records are marked or left out.';
  const { entity, table } = declared;
  if (table !== entity.table || entity.deletes === 'never') return 'Records are never deleted.';
  return 'Records that are gone at the source are marked or left out once a read of the whole entity has shown it.';
}

export type OwnType = 'json' | 'integer' | 'time' | 'string' | 'boolean';

/** Columns that the program adds to each row, after the record's columns. */
export const ownColumns: readonly {
  readonly name: string;
  readonly type: OwnType;
  readonly description: string;
}[] = [
  {
    name: '_extra',
    type: 'json',
    description: 'What the record has and no column takes: a JSON object, as text',
  },
  {
    name: '_seq',
    type: 'integer',
    description: 'Number of the newest change of the row: later changes have higher ones',
  },
  { name: '_changed_at', type: 'time', description: 'When that change was stored' },
  { name: '_run_id', type: 'string', description: 'The sync that stored it' },
  { name: '_deleted', type: 'boolean', description: 'The record is gone at the source' },
  { name: '_deleted_at', type: 'time', description: 'When that was found' },
];

/** All columns of a table as a warehouse has them, keys as NOT NULL. */
export function columnsOf({ columns, key }: CatalogueTable) {
  return [
    ...columns.map(({ name, type }) => ({
      name,
      type: type === 'object' || type === 'array' || type === 'any' ? ('json' as const) : type,
      isRequired: key.includes(name),
    })),
    ...ownColumns.map(({ name, type }) => ({
      name,
      type,
      isRequired: ['_seq', '_changed_at', '_deleted'].includes(name),
    })),
  ];
}

/** A file of an entity's state at the newest publication. */
export interface StateFile {
  /** Relative to the root of the target, with `/`. */
  readonly path: string;
  readonly bytes: number;
  /** Without the program's columns. */
  readonly columns: readonly string[];
}

export type PublishedState = NonNullable<Awaited<ReturnType<typeof readPublished>>>;

/**
 * The newest publication, and the files that it consists of, by `entityName`; without files where the target keeps
 * tables. Null before the first publication. Rejects as the target does.
 */
export async function readPublished(target: Target) {
  const newest = (await target.newest())?.manifest ?? null;
  if (newest === null) return null;
  if (target.layout === null) return { newest, files: null };
  const files = new Map<string, StateFile[]>(newest.entities.map((entity) => [entityName(entity), []]));
  const first = Math.min(newest.publication, ...newest.entities.map(({ base }) => base));
  for await (const { manifest } of target.manifests(first)) {
    if (manifest.publication > newest.publication) break;
    for (const { generation, base, ...entity } of newest.entities) {
      if (manifest.publication < base) continue;
      const published = manifest.entities.find(
        (one) => entityName(one) === entityName(entity) && one.generation === generation,
      );
      if (published === undefined) continue;
      const columns = published.columns.map(({ name }) => name);
      const needed = neededFiles(manifest.publication, base, published);
      files.get(entityName(entity))?.push(...needed.map(({ path, bytes }) => ({ path, bytes, columns })));
    }
  }
  return { newest, files };
}
