import type { EntityGlobs } from '../../../app/app.ts';
import { SyncError } from '../../../core/errors.ts';
import { usage } from '../../../core/usage-error.ts';
import { selectEntities } from '../../../engine/select-entities.ts';
import type { ConnectorSettings } from '../../../settings/settings.ts';

export interface NarrowedConnector {
  readonly connector: ConnectorSettings;
  /** The globs that mean something in this connector; null where they leave nothing of it to read. */
  readonly globs: EntityGlobs | null;
}

/**
 * What globs mean for several connectors together, which may be of different types: one that matches nowhere is USAGE,
 * one that matches in another connector only is no mistake. Throws USAGE also where nothing at all is left to read.
 */
export function narrowConnectors(
  connectors: readonly ConnectorSettings[],
  globs: EntityGlobs,
): readonly NarrowedConnector[] {
  for (const glob of [...globs.select, ...globs.exclude]) {
    if (connectors.some((connector) => matchesIn(connector, glob))) continue;
    throw usage(`No entity matches "${glob}"; there are ${everyEntity(connectors).join(', ')}.`);
  }
  const narrowed = connectors.map((connector) => ({ connector, globs: globsOf(connector, globs) }));
  if (narrowed.some((one) => one.globs !== null)) return narrowed;
  throw usage('Nothing to read: every selected entity, or its parent, is excluded.');
}

function globsOf(connector: ConnectorSettings, globs: EntityGlobs): EntityGlobs | null {
  const select = globs.select.filter((glob) => matchesIn(connector, glob));
  const exclude = globs.exclude.filter((glob) => matchesIn(connector, glob));
  if (select.length === 0 && globs.select.length > 0) return null;
  try {
    selectEntities(connector.definition, connector.entities, { select, exclude });
    return { select, exclude };
  } catch (error) {
    // Each glob matches here, so this says that nothing is left.
    if (error instanceof SyncError && error.code === 'USAGE') return null;
    throw error;
  }
}

function matchesIn({ definition, entities }: ConnectorSettings, glob: string): boolean {
  try {
    selectEntities(definition, entities, { select: [glob], exclude: [] });
    return true;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'USAGE') return false;
    throw error;
  }
}

function everyEntity(connectors: readonly ConnectorSettings[]): readonly string[] {
  return [...new Set(connectors.flatMap(({ entities }) => [...entities.keys()]))];
}
