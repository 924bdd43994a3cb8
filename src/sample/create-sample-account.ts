import { usage } from '../core/usage-error.ts';
import { openLibraryAccount } from './document-library/library-account.ts';
import { openMailingAccount } from './email-marketing/mailing-account.ts';
import type { SampleAccount, SampleAccountOptions, SampleSize } from './sample-account.ts';
import { openNotesAccount } from './workspace-notes/notes-account.ts';
import { maxSampleRevision } from './writing.ts';

type Open = (seed: number, size: SampleSize, revision: number) => SampleAccount;

const openers: ReadonlyMap<string, Open> = new Map([
  ['document-library', openLibraryAccount],
  ['email-marketing', openMailingAccount],
  ['workspace-notes', openNotesAccount],
]);

/** Names of the definitions that there is sample data for. */
export const sampleDefinitions: readonly string[] = [...openers.keys()];

const maxSampleMembers = 1_000_000;

/** Members are computed from (seed, index, revision) when they are asked for. Throws `SyncError` USAGE. */
export function createSampleAccount(options: SampleAccountOptions): SampleAccount {
  const { definitionName, seed, size, revision = 0 } = options;
  const isWithin = (value: number, max: number): boolean =>
    Number.isInteger(value) && value >= 0 && value <= max;
  if (typeof size === 'object' && !isWithin(size.members, maxSampleMembers)) {
    throw usage(`Expected 0 to ${maxSampleMembers} members, got ${size.members}.`);
  }
  if (!isWithin(revision, maxSampleRevision)) {
    throw usage(`Expected a revision from 0 to ${maxSampleRevision}, got ${revision}.`);
  }
  const open = openers.get(definitionName);
  if (open !== undefined) return open(seed, size, revision);
  throw usage(
    `Expected a definition with sample data (${sampleDefinitions.join(', ')}), got ${definitionName}.`,
  );
}
