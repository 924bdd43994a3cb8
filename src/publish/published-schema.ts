import path from 'node:path';
import { stringify } from 'yaml';
import type { ConnectorSettings, PublishPlace } from '../settings/settings.ts';
import { tableName } from '../sinks/postgres/column-types.ts';
import { quoted } from '../sql/database.ts';
import {
  columnsOf,
  entityName,
  neededFiles,
  ownColumns,
  type PublishedColumn,
  type PublishedEntity,
} from './manifest.ts';
import { declaredTables, describedTable, type DeclaredTable } from './publication.ts';
import type { FileFormat } from './row-files.ts';
import { columnsSql, duckdbTypes, namesOf, typeName, type TypeNames } from './table-target.ts';
import type { Target } from './target.ts';

/** A file of `publish schema`, before it has its first line. */
export interface GeneratedFile {
  /** Relative to the folder of the output, with `/`. */
  readonly path: string;
  /** The origin that the first line names. */
  readonly from: string;
  readonly body: string;
}

export const dialectNames: readonly string[] = ['dbt', 'duckdb', 'postgres'];

/** `name`: one of `dialectNames`. */
export function generate(catalogue: Catalogue, name: string): readonly GeneratedFile[] {
  if (name === 'dbt') return dbtSources(catalogue);
  const { place, tables, publication } = catalogue;
  const from = publication === null ? 'the definitions' : `publication ${publication}`;
  const load = (of: FilesCatalogue): string =>
    name === 'duckdb' ? loadTables(of, duckdbTypes, '', insertFiles) : postgresLoad(of);
  const made = tables.map(
    (table) =>
      `${heading(table)}create table if not exists ${tableSql(table, name === 'duckdb' ? duckdbTypes : postgresTypes)}`,
  );
  const making = [`create schema if not exists ${schemaName};\n`, ...made].join('\n');
  return [
    { path: `${name}/tables.sql`, from, body: making },
    ...(place !== null && 'format' in place
      ? [{ path: `${name}/load.sql`, from, body: load({ ...catalogue, place }) }]
      : []),
  ];
}

type FilesCatalogue = Catalogue & { readonly place: FilesPlace };

/** The schema of the tables that generated statements make. */
const schemaName = 'connector_sync';
const postgresTypes = { text: 'text' };

function textOf(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

function tableSql(table: CatalogueTable, types: TypeNames): string {
  return `${schemaName}.${table.name} ${linesSql(table, types)}`;
}

function linesSql(table: CatalogueTable, types: TypeNames): string {
  return `(\n    ${columnsSql(table, types, ',\n    ')}\n);\n`;
}

/** Makes the table again, of the newest state of each row. `fill` puts all rows into `connector_sync_rows`. */
function loadTable(table: CatalogueTable, types: TypeNames, fill: string): string {
  const names = namesOf(table).join(', ');
  return `${heading(table)}create temp table connector_sync_rows ${linesSql(table, types)}${fill}drop table if exists ${schemaName}.${table.name};
create table ${tableSql(table, types)}insert into ${schemaName}.${table.name} (${names})
select ${names}
from (
    select *, row_number() over (partition by ${table.key.map(quoted).join(', ')} order by _seq desc) as _newest
    from connector_sync_rows
) as numbered
where _newest = 1 and not _deleted;
drop table connector_sync_rows;
`;
}

/** The text on one line, without characters that could end a comment or a line. */
function onOneLine(text: string): string {
  return text.replaceAll(/[\p{C}\u2028\u2029]+/gu, ' ').trim();
}

function heading({ connector, entity, generation, schema }: CatalogueTable): string {
  return `-- ${onOneLine(`${connector}/${entity}`)}, generation ${generation}, schema ${schema}\n`;
}

/** Absolute path or `s3://` address of a target's root, without a slash at its end. */
function rootOf(place: FilesPlace): string {
  if (place.type === 'files') return place.directory.replaceAll('\\', '/');
  return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
}

/** The newest publication as tables, all in one state. `fill`: puts all rows of a table into `connector_sync_rows`. */
function loadTables(
  { place, publication, tables }: FilesCatalogue,
  types: TypeNames,
  head: string,
  fill: (table: CatalogueTable, place: FilesPlace) => string,
): string {
  return [
    `-- The rows of publication ${publication ?? 'none'}: generate this again after each publication.\n${head}begin;\n`,
    `create schema if not exists ${schemaName};\n`,
    ...tables.map((table) => loadTable(table, types, fill(table, place))),
    'commit;\n',
  ].join('\n');
}

/** For DuckDB. It takes the columns that no file has from the empty table. */
function insertFiles(table: CatalogueTable, place: FilesPlace): string {
  const files = (table.files ?? []).map(({ path: file }) => textOf(`${rootOf(place)}/${file}`));
  if (files.length === 0) return '';
  return `insert into connector_sync_rows by name
select ${namesOf(table).join(', ')}
from (
    select * from connector_sync_rows where false
    union all by name
    select * from ${readFiles(`[${files.join(', ')}]`, table, place.format)}
);
`;
}

/**
 * An expression of DuckDB for the rows of files. `files`: SQL of a path with `*`, or of a list. Files of earlier
 * columns lack the later ones.
 */
function readFiles(files: string, table: CatalogueTable, format: FileFormat): string {
  switch (format) {
    case 'parquet':
      return `read_parquet(${files}, union_by_name = true)`;
    case 'jsonl': {
      const typed = columnsOf(table).map(
        ({ name, type }) => `${quoted(name)} := '${typeName(type, duckdbTypes)}'`,
      );
      return `read_json(${files}, format = 'newline_delimited', maximum_object_size = 268435456, columns = struct_pack(${typed.join(', ')}))`;
    }
    case 'csv':
      return `read_csv(${files}, header = true, union_by_name = true, all_varchar = true, allow_quoted_nulls = false, max_line_size = 16777216, delim = ',', quote = '"', escape = '"')`;
  }
}

/**
 * All files of a table as a relation with every column in its type, including columns that no file has yet, for readers
 * that cannot make a table first. Null: the target has no files. A table without rows gives no rows.
 */
function filesAsRelation(table: CatalogueTable, { place }: Catalogue): string | null {
  if (place === null || !('format' in place)) return null;
  const columns = columnsOf(table);
  const { files, glob } = table;
  const read = readFiles(textOf(`${rootOf(place)}/${glob}`), table, place.format);
  const nulls = columns.map(({ name }) => `null as ${quoted(name)}`).join(', ');
  const typed = columns.map(
    ({ name, type }) => `cast(${quoted(name)} as ${typeName(type, duckdbTypes)}) as ${quoted(name)}`,
  );
  const from = (rows: string): string => `(select ${typed.join(', ')} from (${rows}))`;
  if (files?.length === 0) return from(`select ${nulls} where false`);
  const isWhole = table.columns.every(
    ({ name }) => files === null || files.some((file) => file.columns.includes(name)),
  );
  if (place.format === 'jsonl' || (place.format === 'parquet' && isWhole)) return read;
  return from(`select ${nulls} where false union all by name select * from ${read}`);
}

/** For CSV files that have to go another way; a target of type postgres does all of it by itself. */
function postgresLoad(catalogue: FilesCatalogue): string {
  if (catalogue.place.format === 'csv' && catalogue.place.type === 'files') {
    return loadTables(catalogue, postgresTypes, '\\set ON_ERROR_STOP on\n', copyFiles);
  }
  return '-- PostgreSQL reads CSV files of this machine: publish with "type: files" and "format: csv", or into a target of type postgres.\n';
}

/** With the names of each file: older ones have fewer columns. psql takes the whole of it from one line. */
function copyFiles({ files }: CatalogueTable, place: FilesPlace): string {
  const copies = (files ?? []).map(({ path: file, columns }) => {
    const own = [...columns, ...ownColumns.map(({ name }) => name)].map(quoted);
    return `\\copy connector_sync_rows (${own.join(', ')}) from ${textOf(`${rootOf(place)}/${file}`)} with (format csv, header)\n`;
  });
  return copies.join('');
}

// --- dbt: the sources of a project

/** The sources of a dbt project, a file for each connector: dbt 1.10.5 or later. */
function dbtSources(catalogue: Catalogue): readonly GeneratedFile[] {
  return [...new Set(catalogue.tables.map(({ connector }) => connector))].map((connector) => ({
    path: `models/connector_sync/${sourceName(connector)}/_sources.yml`,
    from: `the tables of ${connector}`,
    body: sourcesYaml(
      catalogue,
      catalogue.tables.filter((table) => table.connector === connector),
    ),
  }));
}

function sourceName(connector: string): string {
  return connector.replaceAll('-', '_');
}

function sourcesYaml(catalogue: Catalogue, tables: readonly CatalogueTable[]): string {
  const [first] = tables;
  const { place } = catalogue;
  const connector = first?.connector ?? '';
  const isDuckdb = place?.type === 'duckdb';
  const sources = {
    version: 2,
    sources: [
      {
        name: sourceName(connector),
        description: described(`${first?.title ?? connector}, as connector ${connector} publishes it`),
        // DuckDB calls a file that is opened or attached by its own name.
        ...(isDuckdb ? { database: path.parse(place.path).name } : {}),
        schema: isDuckdb ? connector : place?.type === 'postgres' ? place.schema : 'connector_sync',
        loader: 'connector-sync',
        config: { loaded_at_field: '_changed_at' },
        tables: tables.map((table) => ({
          name: table.entity,
          identifier: isDuckdb ? table.entity : table.name,
          description: described(table.description ?? `Rows of ${table.connector}/${table.entity}`),
          config: {
            freshness:
              table.freshWithinMs === null
                ? null
                : { warn_after: { count: Math.ceil(table.freshWithinMs / 60_000), period: 'minute' } },
            ...externalLocation(table, catalogue),
          },
          columns: columnsYaml(table),
        })),
      },
    ],
  };
  return stringify(sources, { lineWidth: 0, aliasDuplicateObjects: false });
}

/**
 * Settings for dbt-duckdb; other adapters ignore them. Both treat braces as names to fill in, so a folder with braces
 * in its path is left out.
 */
function externalLocation(table: CatalogueTable, catalogue: Catalogue): object {
  const relation = filesAsRelation(table, catalogue);
  return relation === null || /[{}]/.test(relation) ? {} : { meta: { external_location: relation } };
}

function columnsYaml(table: CatalogueTable): readonly object[] {
  return columnsOf(table).map(({ name }) => {
    const description = describedColumn(name, table);
    return {
      name,
      ...(/^[a-z_][a-z0-9_]*$/.test(name) && !table.key.includes(name) ? {} : { quote: true }),
      ...(description === '' ? {} : { description: described(description) }),
      ...(table.key.includes(name) ? { data_tests: ['not_null'] } : {}),
    };
  });
}

function describedColumn(name: string, { columns, key }: CatalogueTable): string {
  const own = ownColumns.find((one) => one.name === name);
  if (own !== undefined) return own.description;
  const { type, description } = columns.find((one) => one.name === name) ?? {};
  const isJson = type === 'object' || type === 'array' || type === 'any';
  const words = [
    description ?? (isJson ? 'JSON as it came' : ''),
    key.includes(name) ? 'Part of the key' : '',
  ];
  return words.filter((word) => word !== '').join('. ');
}

/** dbt renders descriptions too: nothing in them may begin an expression. */
function described(text: string): string {
  return onOneLine(text).replaceAll(/([{}%#])(?=[{}%#])/g, '$1 ');
}

// --- Catalogue: the tables that generated text is about

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
    tables,
  };
}

type Published = Pick<PublishedEntity, 'connector' | 'entity' | 'generation' | 'schema' | 'key' | 'columns'>;

function declaredEntity({ connector, table }: DeclaredTable): Published {
  const columns = table.columns.map(({ name, type }) => ({ name, field: name, type }));
  const first = { generation: 1, schema: 1 };
  return { connector: connector.name, entity: table.entity, ...first, key: table.key, columns };
}

function tableOf(
  declared: DeclaredTable | null,
  published: Published,
  place: PublishPlace | null,
  files: readonly StateFile[] | null,
) {
  const { connector, entity, generation, schema, key, columns } = published;
  const described = declared === null ? null : describedTable(declared);
  const read = declared?.connector.entities.get(declared.entity.name);
  const format = place !== null && 'format' in place ? place.format : 'parquet';
  return {
    connector,
    entity,
    /** Title of the connector type, for people. */
    title: declared?.connector.definition.title ?? connector,
    /** Describes the records, in the words of the definition; null: it has no description. */
    description: described?.description ?? null,
    /** `<connector>__<entity>`, at most 63 bytes; no other table has it. */
    name: tableName(connector, entity),
    generation,
    schema,
    key,
    /** Columns as they are in files and tables, without the program's columns. */
    columns: columns.map((column): CatalogueColumn => ({
      ...column,
      description: described?.columns[column.field] ?? null,
    })),
    /** `freshWithin`: how old rows may be before a person should check; null: it is not set. */
    freshWithinMs: read?.freshWithinMs ?? declared?.connector.freshWithinMs ?? null,
    /** All files of the generation, snapshots included; relative to the root of the target, with `/`. */
    glob: `${connector}/${entity}/g${generation}/*/*.${format}`,
    /** Files of its state at the newest publication; null: nothing is published. */
    files,
  };
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
