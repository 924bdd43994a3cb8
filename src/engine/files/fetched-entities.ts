import type { EntityName } from '../../core/names.ts';
import type { RunPlan } from '../../sinks/sink.ts';
import type { FileOptions } from './fetch-files.ts';

/** The entities whose files a run is to fetch: of those that it reads. Backfills bring records, and leave files to the next sync. */
export function fetchedEntities(
  files: Pick<FileOptions, 'entities'> | null,
  { kind, entities }: Pick<RunPlan, 'kind' | 'entities'>,
): readonly EntityName[] {
  return kind === 'sync' ? entities.filter((entity) => files?.entities.has(entity) === true) : [];
}
