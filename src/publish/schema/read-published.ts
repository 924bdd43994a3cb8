import { entityName, neededFiles } from '../manifest.ts';
import type { Target } from '../target.ts';

/** A file of an entity's state at the newest publication. */
export interface StateFile {
  /** Relative to the root of the target, with `/`. */
  readonly path: string;
  readonly bytes: number;
  /** Without the program's own. */
  readonly columns: readonly string[];
}

export type PublishedState = NonNullable<Awaited<ReturnType<typeof readPublished>>>;

/**
 * The newest publication, and the files that it consists of, by `entityName`; without files where the target keeps
 * tables. Null before the first publication. Rejects as the target does.
 */
export async function readPublished(target: Target) {
  const newest = (await target.newest())?.manifest ?? null;
  if (newest === null) return null;
  if (target.layout === null) return { newest, files: null };
  const files = new Map<string, StateFile[]>(newest.entities.map((entity) => [entityName(entity), []]));
  const first = Math.min(newest.publication, ...newest.entities.map(({ base }) => base));
  for await (const { manifest } of target.manifests(first)) {
    if (manifest.publication > newest.publication) break;
    for (const { generation, base, ...entity } of newest.entities) {
      if (manifest.publication < base) continue;
      const published = manifest.entities.find(
        (one) => entityName(one) === entityName(entity) && one.generation === generation,
      );
      if (published === undefined) continue;
      const columns = published.columns.map(({ name }) => name);
      const needed = neededFiles(manifest.publication, base, published);
      files.get(entityName(entity))?.push(...needed.map(({ path, bytes }) => ({ path, bytes, columns })));
    }
  }
  return { newest, files };
}
