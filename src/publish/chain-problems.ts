import { createHash } from 'node:crypto';
import { readManifest, type StoredManifest } from './manifest.ts';

/** A manifest as a table of publications has it. */
export interface PublicationText {
  readonly number: number;
  readonly manifest: string;
  /** Of the text, as it was when it was written. */
  readonly sha256: string;
}

/** Follows manifests in the order of their numbers; the first may be any. Each call gives what is wrong with one of them. */
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
        return [`publications ${before.number + 1} to ${number - 1} are missing`];
      }
      return previous?.sha256 === before.sha256
        ? []
        : [`publication ${number} does not follow the publication ${before.number} that is there`];
    },
  };
}
