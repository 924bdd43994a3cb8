import { createSampleAccount, type SampleAccountOptions } from '../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';

/** A sample account that goes from revision to revision while it is served. */
export interface RevisingAccount extends SampleAccount {
  readonly revision: number;
  /**
   * Forwards or backwards. A call that is under way ends on the revision it began with. Throws `SyncError` USAGE for
   * what is no revision, and then stays where it is.
   */
  moveTo(revision: number): void;
}

/** Begins at `options.revision` (default 0). Throws as `createSampleAccount` does. */
export function revisingAccount(options: SampleAccountOptions): RevisingAccount {
  let revision = options.revision ?? 0;
  let account = createSampleAccount(options);
  return {
    get revision() {
      return revision;
    },
    moveTo(wanted) {
      account = createSampleAccount({ ...options, revision: wanted });
      revision = wanted;
    },
    list: (entity, params) => account.list(entity, params),
    get: (entity, params) => account.get(entity, params),
    // A file that is being read stays as it was, whatever revision comes.
    file: (entity, params) => account.file?.(entity, params) ?? null,
  };
}
