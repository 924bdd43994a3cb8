import { statSync } from 'node:fs';
import { isConnectorId, type ConnectorId } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import { hostedDefinition } from './hosted-definition.ts';
import type { StoredConnector } from './state/connectors.ts';
import { readStateFile } from './state/open-state-file.ts';
import type { Workspace } from './state/workspaces.ts';
import { readServing, servingFile, type Serving } from './store/serving-file.ts';
import { searchableEntities } from './store/store-entities.ts';
import { storeFile } from './store/store-file.ts';

/** A connector that a service hosts, for programs that read its folder. */
export interface HostedConnector {
  readonly id: ConnectorId;
  /** Two connectors may have the same. */
  readonly name: string;
  readonly workspace: string;
  /** Null: the service has only one. */
  readonly organization: string | null;
  /** As its store is filled by it. */
  readonly definition: Definition;
  /** Of its indexed store; it need not be there yet. */
  readonly file: string;
  /** Why the service keeps no store of it; null: it keeps one. */
  readonly noStore: string | null;
}

type Row = Pick<StoredConnector, 'id' | 'name' | 'definition' | 'account'> &
  Pick<Workspace, 'status' | 'isCacheEnabled'> & {
    readonly workspace: string;
    readonly organization: string;
  };

const select = `SELECT c.id, c.name, c.definition, c.account, w.name AS workspace, w.status, w.is_cache_enabled,
    o.name AS organization
  FROM connectors c JOIN workspaces w ON w.id = c.workspace_id JOIN organizations o ON o.id = c.organization_id
  ORDER BY c.sequence`;

/**
 * Reads what a service hosts from its data folder, whether it runs or not, and writes nothing. Throws `SyncError` USAGE
 * where no service of this version was started on it.
 */
export function openHosted(folder: string) {
  const serving = cached(folder);
  return {
    definitions: serving().definitions,
    /** As the service has them at this moment: one read of its state. Throws as `openHosted`, and SINK_FAILED. */
    connectors: (): readonly HostedConnector[] => {
      const now = serving();
      // `as`: what the statement selects.
      const rows = readStateFile(folder, select) as readonly Row[];
      const isOne = new Set(rows.map(({ organization }) => organization)).size === 1;
      return rows.flatMap((row) => {
        const { id, name, workspace, organization } = row;
        // The service makes no other ids.
        if (!isConnectorId(id)) return [];
        const definition = hostedDefinition(now.definitions, row);
        const noStore = whyNoStore(row, definition, now);
        const file = storeFile(folder, id);
        return [
          { id, name, workspace, organization: isOne ? null : organization, definition, file, noStore },
        ];
      });
    },
  };
}

function whyNoStore({ status, isCacheEnabled }: Row, definition: Definition, now: Serving): string | null {
  if (status === 'inactive') return 'its workspace is inactive';
  if (!isCacheEnabled) return 'cache_enabled is false in its workspace';
  if (!now.isIndexed) return 'serve was started with --no-index';
  return searchableEntities(definition).length === 0 ? 'nothing of its type can be searched' : null;
}

/** Only a start of the service writes it: it is read again when it is another file. */
function cached(folder: string): () => Serving {
  let known: { readonly place: string; readonly serving: Serving } | null = null;
  return () => {
    const found = statSync(servingFile(folder), { throwIfNoEntry: false });
    const place = `${found?.ino} ${found?.mtimeMs} ${found?.size}`;
    if (known?.place !== place) known = { place, serving: readServing(folder) };
    return known.serving;
  };
}
