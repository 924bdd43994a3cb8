import { createHash } from 'node:crypto';
import { readManifest, type StoredManifest } from './manifest.ts';

/** A manifest as a table of publications has it. */
export interface PublicationText {
  readonly number: number;
  readonly manifest: string;
  /** Of the text, as it was when it was written. */
  readonly sha256: string;
}

/**
 * What a target of tables does not say of itself, though its newest manifest does: entities without a table that is
 * known. `known`: as `connector/entity`. Null: no publication is left.
 */
export function lostTables(newest: PublicationText | null, known: ReadonlySet<string>): readonly string[] {
  if (newest === null) {
    return known.size === 0 ? [] : ['_publications is empty, and there are tables of publications'];
  }
  try {
    return readManifest(newest.manifest)
      .manifest.entities.map(({ connector, entity }) => `${connector}/${entity}`)
      .filter((name) => !known.has(name))
      .map((name) => `_published_tables lacks ${name}, which was published`);
  } catch {
    // `chainProblems` has said that it cannot be read.
    return [];
  }
}

/**
 * Follows manifests in the order of their numbers; the first may be any. Each call gives what is wrong with one of
 * them.
 */
export function chainProblems(): { readonly next: (publication: PublicationText) => readonly string[] } {
  let last: PublicationText | null = null;
  return {
    next: (publication) => {
      const { number, manifest: text, sha256 } = publication;
      const before = last;
      last = publication;
      if (createHash('sha256').update(text).digest('hex') !== sha256) {
        return [`the manifest of publication ${number} was changed: its SHA-256 is another one`];
      }
      let stored: StoredManifest;
      try {
        stored = readManifest(text);
      } catch (error) {
        return [
          `the manifest of publication ${number} cannot be read (${error instanceof Error ? error.message : String(error)})`,
        ];
      }
      const { publication: named, previous } = stored.manifest;
      if (named !== number) return [`publication ${number} has the manifest of publication ${named}`];
      if (before === null) return [];
      if (before.number !== number - 1) {
        return [missingPublications(before.number + 1, number - 1)];
      }
      return previous?.sha256 === before.sha256
        ? []
        : [`publication ${number} does not follow the publication ${before.number} that is there`];
    },
  };
}

export function missingPublications(first: number, last: number): string {
  return first === last ? `publication ${first} is missing` : `publications ${first} to ${last} are missing`;
}

/**
 * Where `_published_tables` lacks a table: one that was published cannot take what has changed alone, and one of others
 * is not touched.
 */
export function unlisted(
  table: string,
  isThere: boolean,
  isNewGeneration: boolean,
): { readonly found: string; readonly advice: string } {
  if (!isThere) {
    return {
      found: `_published_tables does not list ${table}, which was published`,
      advice: 'Publish with --new-generation',
    };
  }
  return {
    found: `it has a table ${table} that _published_tables does not list`,
    advice: isNewGeneration ? 'Rename that table' : 'Rename that table, and publish with --new-generation',
  };
}
