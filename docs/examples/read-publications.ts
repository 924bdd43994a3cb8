/**
 * The live rows of an entity in one publication, from a folder of Parquet, as JSON Lines.
 *
 *   node read-publications.ts <folder> <connector>/<entity> [<publication>]
 *
 * Needs Node.js 22.18 (or tsx) and the package hyparquet. docs/publications.md describes the format.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as zlib from 'node:zlib';
import { parquetReadObjects } from 'hyparquet';

interface File {
  readonly path: string;
  readonly sha256: string;
}

interface Entity {
  readonly connector: string;
  readonly entity: string;
  readonly generation: number;
  readonly base: number;
  readonly key: readonly string[];
  readonly files: readonly File[];
  readonly snapshot: { readonly files: readonly File[] } | null;
}

interface Manifest {
  readonly format: number;
  readonly previous: { readonly publication: number; readonly sha256: string } | null;
  readonly entities: readonly Entity[];
}

type Row = Readonly<Record<string, unknown>>;

/** A manifest or a file was removed by `prune` since the newest manifest was found: begin again. */
class VanishedError extends Error {}

export async function readPublication(root: string, name: string, wanted?: number): Promise<readonly Row[]> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await liveRows(root, name, wanted ?? (await newestPublication(root)));
    } catch (error) {
      if (!(error instanceof VanishedError) || attempt === 5) throw error;
    }
  }
}

async function liveRows(root: string, name: string, publication: number): Promise<readonly Row[]> {
  const { base, generation, key } = entityOf((await readManifest(root, publication)).manifest, name);
  const rows = new Map<string, Row>();
  let before: string | null = null;
  for (let number = base; number <= publication; number += 1) {
    const { manifest, sha256 } = await readManifest(root, number);
    if (before !== null && manifest.previous?.sha256 !== before) {
      throw new Error(`Publication ${number} does not follow the one before that is there`);
    }
    before = sha256;
    const part = entityOf(manifest, name);
    if (part.generation !== generation) throw new Error(`Publication ${number} has another generation`);
    // Rows come in the order of _seq: a later one replaces, or removes, an earlier one with the same key.
    for (const file of number === base ? (part.snapshot?.files ?? part.files) : part.files) {
      for (const row of await readRows(root, file)) {
        const identity = textOf(key.map((column) => row[column]));
        if (row['_deleted'] === true) rows.delete(identity);
        else rows.set(identity, row);
      }
    }
  }
  return [...rows.values()];
}

async function newestPublication(root: string): Promise<number> {
  const names = (await readdir(join(root, '_publications'))).filter((name) => /^\d{20}\.json$/.test(name));
  if (names.length === 0) throw new Error(`${root} has no publication`);
  return Math.max(...names.map((name) => Number(name.slice(0, 20))));
}

async function readManifest(
  root: string,
  publication: number,
): Promise<{ readonly manifest: Manifest; readonly sha256: string }> {
  const path = join(root, '_publications', `${String(publication).padStart(20, '0')}.json`);
  const bytes = await readBytes(path);
  const manifest = JSON.parse(bytes.toString()) as Manifest;
  if (manifest.format !== 1) throw new Error(`${path} has format ${manifest.format}; this reads format 1`);
  return { manifest, sha256: createHash('sha256').update(bytes).digest('hex') };
}

function entityOf({ entities }: Manifest, name: string): Entity {
  const found = entities.find(({ connector, entity }) => `${connector}/${entity}` === name);
  if (found === undefined) throw new Error(`There is no ${name} in it`);
  return found;
}

async function readRows(root: string, { path, sha256 }: File): Promise<readonly Row[]> {
  const bytes = await readBytes(join(root, path));
  if (createHash('sha256').update(bytes).digest('hex') !== sha256) throw new Error(`${path} is damaged`);
  return await parquetReadObjects({ file: new Uint8Array(bytes).buffer, compressors });
}

type Decompress = (input: Uint8Array) => Uint8Array;

/** Files are compressed by zstd where the writer's Node.js has it (22.15), else by Snappy, which hyparquet brings along. */
const { zstdDecompressSync: unzstd } = zlib as { readonly zstdDecompressSync?: Decompress };
const compressors =
  unzstd === undefined ? {} : { ZSTD: (input: Uint8Array) => new Uint8Array(unzstd(input)) };

async function readBytes(path: string): Promise<Buffer> {
  return await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new VanishedError(`${path} is gone`) : error;
  });
}

/** Integers arrive as bigint, which JSON.stringify does not write. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_name, one: unknown) => (typeof one === 'bigint' ? String(one) : one));
}

if (import.meta.filename === process.argv[1]) {
  const [, , folder, name, publication] = process.argv;
  if (folder === undefined || name === undefined) {
    throw new Error('Usage: node read-publications.ts <folder> <connector>/<entity> [<publication>]');
  }
  const wanted = publication === undefined ? undefined : Number(publication);
  for (const row of await readPublication(folder, name, wanted)) console.log(textOf(row));
}
