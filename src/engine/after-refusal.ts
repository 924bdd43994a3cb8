import { SyncError } from '../core/errors.ts';
import type { Pagination } from '../pagination/pagination.ts';
import type { CompletedPage } from './complete-page.ts';

/** A call for a page has ended: with the page, or with what was thrown. */
export type Fetched = CompletedPage | { readonly error: unknown };

const nothing: CompletedPage = {
  page: { records: [], next: null, serverTime: null, bytes: 0 },
  unanswered: 0,
};

/** A call for a page that failed: where it was refused and the page lies behind the last one, the page is empty. */
export function afterRefusal(meaning: ReturnType<Pagination['refused']>, error: unknown): Fetched {
  if (meaning === null || !(error instanceof SyncError)) return { error };
  const { code, recovery, context, message } = error;
  if (code !== 'NOT_FOUND' && code !== 'REQUEST_REFUSED') return { error };
  if (meaning === 'empty') return nothing;
  const advice = 'if the service answers so behind its last page, the paging of the definition needs its end';
  return { error: new SyncError(`${message}; ${advice}`, { code, recovery, context, cause: error }) };
}
