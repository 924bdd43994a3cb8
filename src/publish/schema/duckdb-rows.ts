import type { FileFormat } from '../row-files.ts';
import type { CatalogueTable } from './catalogue.ts';
import { columnsOf } from './own-columns.ts';
import type { CataloguePlace } from './place.ts';
import { quoteName, quoteText } from './quote-name.ts';

export const duckdbTypes = {
  string: 'varchar',
  integer: 'bigint',
  number: 'double',
  boolean: 'boolean',
  json: 'json',
  time: 'timestamptz',
} as const;

/** Absolute path or `s3://` address of a target's root, without a slash at its end; null where it has no files. */
export function rootOf(place: CataloguePlace): string | null {
  switch (place.kind) {
    case 'folder':
      return place.root.replaceAll('\\', '/');
    case 'bucket':
      return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
    case 'tables':
    case 'unknown':
      return null;
  }
}

/**
 * An expression of DuckDB for the rows of files. `files`: SQL of a path with `*`, or of a list. Files of earlier
 * columns lack the later ones.
 */
export function readFiles(files: string, table: CatalogueTable, format: FileFormat): string {
  switch (format) {
    case 'parquet':
      return `read_parquet(${files}, union_by_name = true)`;
    case 'jsonl': {
      const types = columnsOf(table).map(
        ({ name, type }) => `${quoteName(name, 'duckdb')} := '${duckdbTypes[type]}'`,
      );
      return `read_json(${files}, format = 'newline_delimited', maximum_object_size = 268435456, columns = struct_pack(${types.join(', ')}))`;
    }
    case 'csv':
      return `read_csv(${files}, header = true, union_by_name = true, all_varchar = true, allow_quoted_nulls = false, max_line_size = 16777216, delim = ',', quote = '"', escape = '"')`;
  }
}

/**
 * All files of a table as a relation with every column in its type, for where no table can be made before: also of
 * columns that no file has yet. Null: the target has no files; those of a table without rows give no rows.
 */
export function filesAsRelation(table: CatalogueTable, place: CataloguePlace): string | null {
  const root = rootOf(place);
  if (root === null || !('format' in place)) return null;
  const columns = columnsOf(table);
  const { files, glob } = table.paths;
  const read = readFiles(quoteText(`${root}/${glob}`, 'duckdb'), table, place.format);
  const nulls = columns.map(({ name }) => `null as ${quoteName(name, 'duckdb')}`).join(', ');
  const typed = columns.map(({ name, type }) => {
    const quoted = quoteName(name, 'duckdb');
    return `cast(${quoted} as ${duckdbTypes[type]}) as ${quoted}`;
  });
  const from = (rows: string): string => `(select ${typed.join(', ')} from (${rows}))`;
  if (files?.length === 0) return from(`select ${nulls} where false`);
  const isWhole = table.columns.every(
    ({ name }) => files === null || files.some((file) => file.columns.includes(name)),
  );
  if (place.format === 'jsonl' || (place.format === 'parquet' && isWhole)) return read;
  return from(`select ${nulls} where false union all by name select * from ${read}`);
}
