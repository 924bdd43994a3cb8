import { SyncError } from '../../core/errors.ts';
import type { LedgerReader } from '../ledger-reader.ts';
import type { OfferedView } from './offered-views.ts';

/** `read` are the views that a query reads, `history` is what the sink says in the same state. */
export type OnViews<Facts> = (read: readonly OfferedView[], history: LedgerReader) => Promise<Facts>;

const mostNamed = 20;

/** The message is for the one who wrote the query. */
export function queryRefused(why: string, views: readonly OfferedView[]): SyncError {
  const names = views.slice(0, mostNamed).map(({ name }) => name);
  const more = names.length < views.length ? ', ... ; without a query, all of them are listed' : '';
  return new SyncError(
    `sql: ${why}. Expected one query (SELECT, VALUES or WITH) over these views: ${names.join(', ')}${more}.`,
    { code: 'USAGE', recovery: 'stop' },
  );
}
