import type { RunId } from '../../../core/names.ts';
import type { PageCounts } from '../../../core/records.ts';
import type { EntityTarget } from '../../../settings/entity-target.ts';
import type { CommandContext } from '../../command-context.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';

export type Refetched =
  | { readonly kind: 'stored'; readonly counts: PageCounts }
  /** `wasStored`: there was a row that was alive. */
  | { readonly kind: 'deleted'; readonly wasStored: boolean }
  /** The service has no such record; nothing was changed. */
  | { readonly kind: 'missing' };

/** Says what came of it: 0 where the sink now holds what the service has, 3 where it may not. */
export function tellRefetched(
  { terminal }: CommandContext,
  { name, entity }: EntityTarget,
  refetched: Refetched & { readonly run: RunId | null },
): ExitCode {
  const { run } = refetched;
  const result = resultOf(refetched);
  terminal.printJson({ target: name, result, run });
  const inRun = run === null ? '' : ` (run ${run})`;
  terminal.print(`${name}: ${texts[result](entity.name)}${inRun}`);
  return result === 'missing' ? exitCodes.degraded : exitCodes.ok;
}

type Result = 'inserted' | 'updated' | 'unchanged' | 'deleted' | 'not-stored' | 'missing';

function resultOf(refetched: Refetched): Result {
  switch (refetched.kind) {
    case 'stored': {
      const { inserted, updated } = refetched.counts;
      if (inserted > 0) return 'inserted';
      return updated > 0 ? 'updated' : 'unchanged';
    }
    case 'deleted':
      return refetched.wasStored ? 'deleted' : 'not-stored';
    case 'missing':
      return 'missing';
  }
}

const texts: Readonly<Record<Result, (entity: string) => string>> = {
  inserted: () => 'inserted',
  updated: () => 'updated',
  unchanged: () => 'unchanged: the stored record is the same as at the API',
  deleted: (entity) =>
    `deleted: the API has no such record; the next sync of ${entity} deletes the records below it`,
  'not-stored': () => 'the API has no such record, and none is stored',
  missing: () =>
    'the API has no such record; nothing was changed. --allow-deletes marks a stored one as deleted.',
};
