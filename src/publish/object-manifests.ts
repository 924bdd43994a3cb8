import { SyncError } from '../core/errors.ts';
import { linearPattern, type LinearPattern } from '../definitions/linear-pattern.ts';
import { otherVersionAdvice, readManifest, type PublishedEntity, type StoredManifest } from './manifest.ts';
import type { ObjectStore } from './object-store.ts';
import type { FileFormat } from './open-row-file-writers.ts';

const folder = '_publications/';
/** Says which publication is the newest, for people and sensors; those that count are found by their names. */
export const latestName = '_latest.json';

export function manifestName(publication: number): string {
  return `${folder}${String(publication).padStart(20, '0')}.json`;
}

export function latestText(publication: number): string {
  return `${JSON.stringify({ publication, manifest: manifestName(publication) })}\n`;
}

/** Numbers of the publications behind `after`, rising. What else lies beside their manifests is left alone. */
export async function* publicationNumbers(store: ObjectStore, after: number): AsyncGenerator<number> {
  for await (const { name } of store.list(folder, after > 0 ? manifestName(after) : undefined)) {
    const number = publicationOf(name);
    if (number !== null && number > after) yield number;
  }
}

/** Of a manifest by its name; null for any other name. */
export function publicationOf(name: string): number | null {
  const [, digits] = /^_publications\/(\d{20})\.json$/.exec(name) ?? [];
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : null;
}

/** From publication `first` on, in order. */
export async function* readManifests(store: ObjectStore, first: number): AsyncGenerator<StoredManifest> {
  for await (const number of publicationNumbers(store, first - 1)) {
    const stored = await readStored(store, number);
    // Pruned since it was listed.
    if (stored !== null) yield stored;
  }
}

/**
 * Lists from the one on that `_latest.json` names. Throws `SyncError` TARGET_INCOMPATIBLE where that one is missing:
 * numbers that readers know would be given again, and they would not read them.
 */
export async function readNewest(store: ObjectStore): Promise<StoredManifest | null> {
  const noted = await notedNumber(store);
  let number: number | null = null;
  for await (const one of publicationNumbers(store, (noted ?? 1) - 1)) number = one;
  if (number === null && noted !== null && (await store.read(manifestName(noted))) === null) {
    throw new SyncError(
      `The newest manifest ${manifestName(noted)} is gone, and ${latestName} names it. Restore it from a backup; without one, remove ${latestName} and publish with --new-generation, after which readers must start again.`,
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { publication: noted } },
    );
  }
  if (number === null) return null;
  const stored = await readStored(store, number);
  if (stored !== null) return stored;
  throw new SyncError(
    `The newest manifest ${manifestName(number)} was listed and is gone. If nothing else removes files there, publish again.`,
    { code: 'TARGET_FAILED', recovery: 'retry', context: { publication: number } },
  );
}

/** What `_latest.json` names, at least 1; null where it is not there or says nothing useful. It may lag. */
export async function notedNumber(store: ObjectStore): Promise<number | null> {
  const text = (await store.read(latestName))?.toString() ?? '';
  const [, digits] = /"publication":\s*(\d{1,15})/.exec(text) ?? [];
  return digits === undefined ? null : Math.max(1, Number(digits));
}

export async function readStored(store: ObjectStore, publication: number): Promise<StoredManifest | null> {
  const name = manifestName(publication);
  const bytes = await store.read(name);
  if (bytes === null) return null;
  try {
    const stored = readManifest(bytes.toString());
    if (stored.manifest.publication === publication) return stored;
    throw new Error(`it says that it is publication ${stored.manifest.publication}`);
  } catch (error) {
    throw new SyncError(
      `${name} is not a manifest that this version reads: ${error instanceof Error ? error.message : String(error)}. ` +
        `${otherVersionAdvice} Else restore it from a backup; without one, remove it and ${latestName}, and publish with --new-generation, after which readers must start again.`,
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { manifest: name }, cause: error },
    );
  }
}

/** What the name of a published file says. */
export interface PartName extends Pick<PublishedEntity, 'connector' | 'entity' | 'generation'> {
  readonly kind: 'changes' | 'snapshot';
  /** The day, UTC, on which the publication was begun. */
  readonly date: string;
  readonly publication: number;
  readonly part: number;
}

const placeholder = /\{([a-z]+)\}/g;

/** How each is written in a name; `digits`: as many at least. */
const parts: Readonly<Record<keyof PartName, { readonly shape: string; readonly digits?: number }>> = {
  connector: { shape: '[a-z0-9_-]+' },
  entity: { shape: '[a-z0-9_]+' },
  generation: { shape: '\\d+' },
  kind: { shape: '(?:changes|snapshot)' },
  date: { shape: '\\d{4}-\\d\\d-\\d\\d' },
  publication: { shape: '\\d{8,}', digits: 8 },
  part: { shape: '\\d{4,}', digits: 4 },
};

/** `layout` with its placeholders filled in, then 8 hex digits of the attempt: no name comes twice. */
export function partName(layout: string, part: PartName, attempt: string, format: FileFormat): string {
  const name = layout.replaceAll(placeholder, (_found, what: keyof PartName) =>
    String(part[what]).padStart(parts[what].digits ?? 0, '0'),
  );
  return `${name}-${attempt}.${format}`;
}

/**
 * Matches what `partName` makes of this layout, and no file that another program may have put there. Its groups:
 * `publication` and `attempt`.
 */
export function partNamePattern(layout: string): LinearPattern {
  const pattern = layout
    .replaceAll('.', '\\.')
    .replace('{publication}', `(?<publication>${parts.publication.shape})`)
    .replaceAll(placeholder, (_found, what: keyof PartName) => parts[what].shape);
  return linearPattern(`${pattern}-(?<attempt>[0-9a-f]{8})\\.(?:parquet|jsonl|csv)`);
}
