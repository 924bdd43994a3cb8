import type { ConnectorName, RunId } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { PageCommit } from '../sink.ts';

/** What the newest of the pages that say something say. */
export function noteProgress(
  tx: Tx,
  { connector, run }: { readonly connector: ConnectorName; readonly run: RunId },
  pages: readonly Pick<PageCommit, 'shown'>[],
): void {
  const shown = pages.findLast((page) => page.shown !== undefined)?.shown;
  if (shown === undefined) return;
  tx.put(
    `INSERT INTO _sync_progress (connector, run, shown) VALUES (:connector, :run, :shown)
     ON CONFLICT (connector) DO UPDATE SET run = excluded.run, shown = excluded.shown`,
    { connector, run, shown },
  );
}

export function dropProgress(tx: Tx, connector: ConnectorName): void {
  tx.put('DELETE FROM _sync_progress WHERE connector = :connector', { connector });
}

/** How far a run in progress is, as its process has written it for people; null: it has written nothing. */
export async function readProgress(tx: Tx, run: RunId): Promise<string | null> {
  const found = await tx.first<{ shown: string }>('SELECT shown FROM _sync_progress WHERE run = :run', {
    run,
  });
  return found?.shown ?? null;
}
