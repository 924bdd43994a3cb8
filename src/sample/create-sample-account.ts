import { usage } from '../core/usage-error.ts';
import { openLibraryAccount } from './document-library/library-account.ts';
import { openMailingAccount } from './email-marketing/mailing-account.ts';
import type { SampleAccount, SampleAccountOptions } from './sample-account.ts';
import { openNotesAccount } from './workspace-notes/notes-account.ts';
import { maxSampleRevision } from './writing.ts';

/** Names of the definitions that there is sample data for. */
export const sampleDefinitions: readonly string[] = [
  'document-library',
  'email-marketing',
  'workspace-notes',
];

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
