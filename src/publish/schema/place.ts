import path from 'node:path';
import { defaultLayout } from '../../settings/publish-file.ts';
import type { PublishSettings } from '../../settings/settings.ts';
import type { Manifest, PublishedEntity } from '../manifest.ts';
import type { FileFormat } from '../row-files.ts';
import type { Target } from '../target.ts';

/** A target of files. */
export type FilesPlace =
  | { readonly kind: 'folder'; readonly root: string; readonly format: FileFormat }
  | {
      readonly kind: 'bucket';
      readonly bucket: string;
      /** Without a slash at its ends; may be empty. */
      readonly prefix: string;
      readonly region: string | null;
      readonly endpoint: string | null;
      readonly format: FileFormat;
    };

/** Where the rows are that generated text reads. */
export type CataloguePlace =
  | FilesPlace
  /** The target's own tables: nothing has to be loaded. */
  | { readonly kind: 'tables'; readonly type: 'postgres'; readonly schema: string }
  /** `database`: what DuckDB calls the file, opened or attached under its own name. */
  | { readonly kind: 'tables'; readonly type: 'duckdb'; readonly database: string }
  /** The config has no target. */
  | { readonly kind: 'unknown' };

/** Absolute path or `s3://` address of a target's root, without a slash at its end. */
export function rootOf(place: FilesPlace): string {
  if (place.kind === 'folder') return place.root.replaceAll('\\', '/');
  return `s3://${[place.bucket, place.prefix].filter((part) => part !== '').join('/')}`;
}

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

/** The newest publication, and the files that it consists of. */
export interface PublishedState {
  readonly newest: Manifest;
  /** By `entityName`; null: the target keeps tables. */
  readonly files: ReadonlyMap<string, readonly StateFile[]> | null;
}

/** Null before the first publication. Rejects as the target does. */
export async function readPublished(target: Target): Promise<PublishedState | null> {
  const newest = (await target.newest())?.manifest ?? null;
  if (newest === null) return null;
  if (!target.hasFiles) return { newest, files: null };
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
      files.get(entityName(entity))?.push(...stateFiles(published, manifest.publication === base));
    }
  }
  return { newest, files };
}

export function entityName({ connector, entity }: Pick<PublishedEntity, 'connector' | 'entity'>): string {
  return `${connector}/${entity}`;
}

/** Of the publication that readers begin with the snapshot, if it has one. */
function stateFiles(published: PublishedEntity, isBase: boolean): readonly StateFile[] {
  const columns = published.columns.map(({ name }) => name);
  const files = isBase ? (published.snapshot?.files ?? published.files) : published.files;
  return files.map(({ path, bytes }) => ({ path, bytes, columns }));
}
