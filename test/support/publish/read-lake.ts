import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { JsonObject } from '../../../src/core/json.ts';
import { keyTextOf, type ColumnValue } from '../../../src/core/records.ts';
import {
  readManifest,
  type Manifest,
  type PublishedEntity,
  type PublishedFile,
} from '../../../src/publish/manifest.ts';

/** Every manifest of a folder, oldest first; throws where one is torn. */
export function lakeManifests(lake: string): readonly Manifest[] {
  const folder = join(lake, '_publications');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /^\d{20}\.json$/.test(name))
    .toSorted()
    .map((name) => readManifest(readFileSync(join(folder, name), 'utf8')).manifest);
}

/** A line of a file, with the key's text. */
interface LakeRow {
  readonly keyText: string;
  readonly seq: number;
  readonly isDeleted: boolean;
  readonly line: JsonObject;
}

/**
 * What a reader finds that follows the manifests of JSONL files up to `publication`: entity -> key -> live row. Checks
 * on the way that every file is whole, that its rows are those that its manifest names, and that no change is in two
 * publications of a generation.
 */
export function readLake(
  lake: string,
  manifests: readonly Manifest[],
  publication: number,
): ReadonlyMap<string, ReadonlyMap<string, LakeRow>> {
  const newest = manifests.find((one) => one.publication === publication);
  if (newest === undefined) throw new Error(`There is no publication ${publication}`);
  return new Map(
    newest.entities.map((entity) => [entity.entity, entityRows(lake, manifests, entity, publication)]),
  );
}

function entityRows(
  lake: string,
  manifests: readonly Manifest[],
  { connector, entity, generation, base }: PublishedEntity,
  publication: number,
): ReadonlyMap<string, LakeRow> {
  const rows = new Map<string, LakeRow>();
  for (let number = base; number <= publication; number += 1) {
    const manifest = manifests.find((one) => one.publication === number);
    const published = manifest?.entities.find((one) => one.connector === connector && one.entity === entity);
    if (published === undefined) {
      throw new Error(`Publication ${number} does not have ${connector}/${entity}`);
    }
    if (published.generation !== generation) throw new Error(`Publication ${number} has another generation`);
    const files = number === base ? (published.snapshot?.files ?? published.files) : published.files;
    for (const row of files.flatMap((file) => fileRows(lake, file, published.key))) {
      const known = rows.get(row.keyText);
      if (known !== undefined && known.seq >= row.seq) throw new Error(`Change ${row.seq} came twice`);
      rows.set(row.keyText, row);
    }
  }
  return new Map([...rows].filter(([, { isDeleted }]) => !isDeleted));
}

function fileRows(lake: string, file: PublishedFile, key: readonly string[]): readonly LakeRow[] {
  const bytes = readFileSync(join(lake, file.path));
  const hash = createHash('sha256').update(bytes).digest('hex');
  if (bytes.length !== file.bytes || hash !== file.sha256) throw new Error(`${file.path} is torn`);
  const rows = bytes
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((text) => {
      const line = JSON.parse(text) as JsonObject;
      const keyText = keyTextOf(key.map((name) => line[name] as ColumnValue));
      return { keyText, seq: Number(line['_seq']), isDeleted: line['_deleted'] === true, line };
    });
  const seqs = rows.map(({ seq }) => seq);
  if (rows.length !== file.rows || seqs[0] !== file.firstSeq || seqs.at(-1) !== file.lastSeq) {
    throw new Error(`${file.path} does not have the rows that its manifest names`);
  }
  return rows;
}

/** Entity -> key -> number of the newest change, of rows that are not deleted. */
export function seqsOf(
  rows: ReadonlyMap<string, ReadonlyMap<string, Pick<LakeRow, 'seq' | 'isDeleted'>>>,
): Readonly<Record<string, Readonly<Record<string, number>>>> {
  return Object.fromEntries(
    [...rows].map(([entity, byKey]) => [
      entity,
      Object.fromEntries([...byKey].filter(([, row]) => !row.isDeleted).map(([key, { seq }]) => [key, seq])),
    ]),
  );
}

/** Files of a folder that no manifest names, temporary ones included. */
export function unnamedFiles(lake: string): readonly string[] {
  if (!existsSync(lake)) return [];
  const named = new Set(
    lakeManifests(lake).flatMap(({ entities }) =>
      entities.flatMap((entity) =>
        [...entity.files, ...(entity.snapshot?.files ?? [])].map((file) => file.path),
      ),
    ),
  );
  return readdirSync(lake, { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(lake, join(entry.parentPath, entry.name)))
    .filter(
      (name) => name !== '_latest.json' && !/^_publications\/\d{20}\.json$/.test(name) && !named.has(name),
    );
}
