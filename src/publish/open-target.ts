import type { Clock } from '../core/clock.ts';
import type { PublishSettings } from '../settings/settings.ts';
import type { ObjectStore, Target } from './target.ts';

export interface OpenTarget {
  readonly clock: Clock;
  /** Ends what waits for a server: it rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/**
 * Opens the target that the settings name, without creating or requesting anything yet. The caller disposes it. Rejects
 * with PACKAGE_MISSING if its library is not installed. Each kind is loaded only when it is used.
 */
export async function openTarget(settings: PublishSettings, how: OpenTarget): Promise<Target> {
  switch (settings.type) {
    case 'files': {
      const { openFolderStore } = await import('./folder-store.ts');
      return await openFiles(openFolderStore(settings.directory), settings, how);
    }
    case 's3': {
      const { openS3Store } = await import('./s3-store.ts');
      return await openFiles(await openS3Store(settings, how), settings, how);
    }
    case 'postgres': {
      const { openPostgresTarget } = await import('./postgres-target.ts');
      return openPostgresTarget(settings, { keepMs: settings.keepMs, ...how });
    }
    case 'duckdb': {
      const { openDuckdbTarget } = await import('./duckdb-target.ts');
      return openDuckdbTarget(settings, { keepMs: settings.keepMs, ...how });
    }
  }
}

async function openFiles(
  store: ObjectStore,
  { format }: Extract<PublishSettings, { readonly type: 'files' | 's3' }>,
  { clock }: OpenTarget,
): Promise<Target> {
  const { openObjectTarget } = await import('./object-target.ts');
  const { openRowFileWriters } = await import('./row-files.ts');
  return openObjectTarget({ store, writers: openRowFileWriters(), format, clock });
}
