import { join } from 'node:path';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Manifest, PublishedEntity } from '../../../src/publish/manifest.ts';
import type { Row } from '../expected-rows.ts';
import { duckdb, identifier, literal } from './read-tables.ts';
import { readLake } from './read-lake.ts';

/**
 * Live rows of the newest publication, entity by entity: key as JSON -> row, as `stored` of a revision world has them.
 */
type LakeRows = ReadonlyMap<string, ReadonlyMap<string, Row>>;

export function jsonlLakeRows(lake: string, manifests: readonly Manifest[]): LakeRows {
  const { publication, entities } = newestOf(manifests);
  const found = readLake(lake, manifests, publication);
  return new Map(
    entities.map((entity) => [
      entity.entity,
      new Map(
        [...(found.get(entity.entity)?.values() ?? [])].map(({ line }) => [
          keyOf(entity, line),
          { columns: columnsOf(entity, line), extra: (line['_extra'] as JsonObject | null) ?? null },
        ]),
      ),
    ]),
  );
}

/** Read by DuckDB, from the files that the manifests name alone. */
export async function parquetLakeRows(lake: string, manifests: readonly Manifest[]): Promise<LakeRows> {
  const rows = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of newestOf(manifests).entities) {
    const files = filesOf(manifests, entity).map((path) => literal(join(lake, path)));
    rows.set(entity.entity, files.length === 0 ? new Map() : await askDuckdb(entity, files));
  }
  return rows;
}

async function askDuckdb(
  entity: PublishedEntity,
  files: readonly string[],
): Promise<ReadonlyMap<string, Row>> {
  const key = entity.key.map(identifier).join(', ');
  const found = await duckdb(
    `SELECT * FROM read_parquet([${files.join(', ')}], union_by_name = true)
     QUALIFY row_number() OVER (PARTITION BY ${key} ORDER BY _seq DESC) = 1 AND NOT _deleted`,
  );
  return new Map(
    found.map((row) => {
      const line: JsonObject = Object.fromEntries(
        [...entity.columns, { name: '_extra', type: 'object' as const }].map(({ name, type }) => [
          name,
          jsonOf(row[name], type),
        ]),
      );
      const extra = (line['_extra'] as JsonObject | null) ?? null;
      return [keyOf(entity, line), { columns: columnsOf(entity, line), extra }];
    }),
  );
}

function jsonOf(value: unknown, type: PublishedEntity['columns'][number]['type']): JsonValue {
  if (value === null || value === undefined) return null;
  const isJson = type === 'object' || type === 'array' || type === 'any';
  if (isJson && typeof value === 'string') return JSON.parse(value) as JsonValue;
  return typeof value === 'bigint' ? Number(value) : (value as JsonValue);
}

function filesOf(
  manifests: readonly Manifest[],
  { connector, entity, base }: PublishedEntity,
): readonly string[] {
  return manifests
    .filter(({ publication }) => publication >= base)
    .flatMap(({ publication, entities }) => {
      const one = entities.find((other) => other.connector === connector && other.entity === entity);
      const files = publication === base ? (one?.snapshot?.files ?? one?.files) : one?.files;
      return (files ?? []).map(({ path }) => path);
    });
}

function newestOf(manifests: readonly Manifest[]): Manifest {
  const newest = manifests.at(-1);
  if (newest === undefined) throw new Error('Nothing was published');
  return newest;
}

function keyOf({ key }: PublishedEntity, line: JsonObject): string {
  return JSON.stringify(key.map((name) => line[name]));
}

function columnsOf({ columns }: PublishedEntity, line: JsonObject): JsonObject {
  return Object.fromEntries(columns.map(({ name, field }) => [field, line[name] ?? null]));
}
