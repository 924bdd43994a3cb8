import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { PublishSettings } from '../settings/settings.ts';
import type { ObjectStore } from './object-store.ts';
import type { ObjectTargetOptions } from './object-target.ts';
import type { Target } from './target.ts';

/** Opens what the settings name; nothing is made or asked there yet. The caller disposes it. Rejects with PACKAGE_MISSING where its library is not installed. */
export async function openTarget(settings: PublishSettings, clock: Clock): Promise<Target> {
  switch (settings.type) {
    case 'files': {
      const { openFolderStore } = await import('./folder-store.ts');
      return await openFiles(openFolderStore(settings.directory), settings, clock);
    }
    case 's3':
    case 'postgres':
    case 'duckdb':
      throw new SyncError(`Target ${settings.name}: this version does not publish to ${settings.type}.`, {
        code: 'CONFIG_INVALID',
        recovery: 'stop',
      });
  }
}

/** Commands that only read a target need none of this. */
async function openFiles(
  store: ObjectStore,
  { format, layout }: Pick<ObjectTargetOptions, 'format' | 'layout'>,
  clock: Clock,
): Promise<Target> {
  const { openObjectTarget } = await import('./object-target.ts');
  const { openRowFileWriters } = await import('./open-row-file-writers.ts');
  return openObjectTarget({ store, writers: openRowFileWriters(), format, layout, clock });
}
