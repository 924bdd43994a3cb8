import { SyncError } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { openLibraryAccount } from './document-library/library-account.ts';
import { openMailingAccount } from './email-marketing/mailing-account.ts';
import type { Listing } from './listing.ts';
import { maxSampleRevision } from './revision-time.ts';
import { openNotesAccount } from './workspace-notes/notes-account.ts';

/**
 * `small`: a few seconds' walk with something of everything. `tiny`: few calls. `{ members }`: one mailing list with
 * that many members, up to a million; a workspace of notes and a library are then `tiny`.
 */
export type SampleSize = 'tiny' | 'small' | { readonly members: number };

export interface SampleAccountOptions {
  /** One of `sampleDefinitions`. */
  readonly definitionName: string;
  /** Any integer: the same seed and size make the same account. */
  readonly seed: number;
  readonly size: SampleSize;
  /** 0 (default) to `maxSampleRevision`: the account after so many rounds of changes. See `revisionTime`. */
  readonly revision?: number;
}

/** A third-party account as its connector sees it. Small enough to be wrapped by whoever wants it to behave otherwise. */
export interface SampleAccount {
  /** `params` as the definition types them. Throws `ApiError` 404 for an unknown parent, 400 for a value it cannot use. */
  list(entity: string, params: Params): Listing;
  /** Null when there is no such record. */
  get(entity: string, params: Params): JsonObject | null;
  /** Null when there is no such file. Absent: the account has no files. */
  file?(entity: string, params: Params): SampleFile | null;
}

/** A file as the third party keeps it. */
export interface SampleFile {
  /** As it was uploaded: anything at all, up to a path of somebody's machine. */
  readonly name: string;
  readonly contentType: string;
  /** In bytes. */
  readonly size: number;
  /** The bytes from the start, made chunk by chunk. Rejects with the signal's reason when that is aborted. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
}

/** Names of the definitions that there is sample data for. */
export const sampleDefinitions: readonly string[] = [
  'document-library',
  'email-marketing',
  'workspace-notes',
];

export const maxSampleMembers = 1_000_000;

/**
 * Records are computed from (seed, entity, index) when they are asked for; only what revisions changed is kept. Throws
 * `SyncError` USAGE.
 */
export function createSampleAccount(options: SampleAccountOptions): SampleAccount {
  const { definitionName, seed, size, revision = 0 } = options;
  if (typeof size === 'object' && !(Number.isInteger(size.members) && isMemberCount(size.members))) {
    throw usage(`Expected 0 to ${maxSampleMembers} members, got ${size.members}.`);
  }
  if (!(Number.isInteger(revision) && revision >= 0 && revision <= maxSampleRevision)) {
    throw usage(`Expected a revision from 0 to ${maxSampleRevision}, got ${revision}.`);
  }
  switch (definitionName) {
    case 'email-marketing':
      return openMailingAccount(seed, size, revision);
    case 'workspace-notes':
      return openNotesAccount(seed, size === 'small' ? 'small' : 'tiny', revision);
    case 'document-library':
      return openLibraryAccount(seed, size === 'small' ? 'small' : 'tiny', revision);
    default:
      throw usage(
        `Expected a definition with sample data (${sampleDefinitions.join(', ')}), got ${definitionName}.`,
      );
  }
}

function isMemberCount(members: number): boolean {
  return members >= 0 && members <= maxSampleMembers;
}

function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
