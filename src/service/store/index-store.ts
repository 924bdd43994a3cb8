import { openSearch } from '../../search/open-search.ts';
import { searchTarget } from '../../search/search-target.ts';
import { updateSearchIndex } from '../../search/index/update-search-index.ts';
import { searchableEntities } from './store-entities.ts';
import { storeConnector } from './store-file.ts';
import type { StoreJob } from './store-messages.ts';

/** Brings the search index of everything that can be searched up to what is stored. Throws `SyncError` as a sink does. */
export async function indexStore({ file, definition }: StoreJob, signal: AbortSignal): Promise<void> {
  using search = openSearch(file);
  for (const entity of searchableEntities(definition)) {
    const target = searchTarget(entity, storeConnector, (name) => search.stored(storeConnector, name));
    await updateSearchIndex(file, target, { signal });
  }
}
