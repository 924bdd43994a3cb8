import { SyncError } from '../core/errors.ts';
import type { Pagination } from '../pagination/pagination.ts';
import type { SourcePage } from '../source/source.ts';

type Meaning = ReturnType<NonNullable<Pagination['refused']>>;

const nothing: SourcePage = { records: [], next: null, serverTime: null, bytes: 0 };

/** A call for a page that failed: where it was refused and the page lies behind the last one, the page is empty. */
export function afterRefusal(
  meaning: Meaning,
  error: unknown,
): { readonly page: SourcePage } | { readonly error: unknown } {
  if (meaning === null || !(error instanceof SyncError)) return { error };
  const { code, recovery, context, message } = error;
  if (code !== 'NOT_FOUND' && code !== 'REQUEST_REFUSED') return { error };
  if (meaning === 'empty') return { page: nothing };
  const advice = 'if the service answers so behind its last page, the paging of the definition needs its end';
  return { error: new SyncError(`${message}; ${advice}`, { code, recovery, context, cause: error }) };
}
