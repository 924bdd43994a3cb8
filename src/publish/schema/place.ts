import path from 'node:path';
import type { PublishSettings } from '../../settings/settings.ts';
import type { PublishedEntity } from '../manifest.ts';
import { defaultLayout } from '../../settings/publish-file.ts';
import type { FileFormat } from '../row-files.ts';

/** Where the rows are that generated text reads. */
export type CataloguePlace =
  | { readonly kind: 'folder'; readonly root: string; readonly format: FileFormat }
  | {
      readonly kind: 'bucket';
      readonly bucket: string;
      /** Without a slash at its ends; may be empty. */
      readonly prefix: string;
      readonly region: string | null;
      readonly endpoint: string | null;
      readonly format: FileFormat;
    }
  /** The target's own tables: nothing has to be loaded. */
  | { readonly kind: 'tables'; readonly type: 'postgres'; readonly schema: string }
  /** `database`: what DuckDB calls the file, opened or attached under its own name. */
  | { readonly kind: 'tables'; readonly type: 'duckdb'; readonly database: string }
  /** The config has no target. */
  | { readonly kind: 'unknown' };

/** Relative to the root of the target, with `/`. */
export interface TablePaths {
  /** All files of the generation, snapshots included. */
  readonly glob: string;
  /** What its state at the newest publication consists of; null: nothing is published. */
  readonly files: readonly StateFile[] | null;
}

export interface StateFile {
  readonly path: string;
  readonly bytes: number;
  /** Without the program's own. */
  readonly columns: readonly string[];
}

export function placeOf(target: PublishSettings | null): CataloguePlace {
  switch (target?.type) {
    case undefined:
      return { kind: 'unknown' };
    case 'files':
      return { kind: 'folder', root: target.directory, format: target.format };
    case 's3': {
      const { bucket, prefix, region, endpoint, format } = target;
      return { kind: 'bucket', bucket, prefix, region, endpoint, format };
    }
    case 'postgres':
      return { kind: 'tables', type: 'postgres', schema: target.schema };
    case 'duckdb':
      return { kind: 'tables', type: 'duckdb', database: path.parse(target.path).name };
  }
}

/** `files`: what `readPublished` found of the entity. */
export function pathsOf(
  entity: Pick<PublishedEntity, 'connector' | 'entity' | 'generation'>,
  target: PublishSettings | null,
  files: readonly StateFile[] | null,
): TablePaths {
  const { layout, format } =
    target?.type === 'files' || target?.type === 's3' ? target : { layout: defaultLayout, format: 'parquet' };
  const known: Readonly<Record<string, string>> = {
    connector: entity.connector,
    entity: entity.entity,
    generation: String(entity.generation),
  };
  const pattern = layout.replaceAll(/\{([a-z]+)\}/g, (_all, name: string) => known[name] ?? '*');
  return { glob: `${pattern}*.${format}`.replaceAll(/\*{2,}/g, '*'), files };
}
