import { resolve } from 'node:path';
import {
  chooseRecords,
  storedConnectorId,
  type PurgeChoice,
  type PurgeTarget,
} from '../../../app/purge-records.ts';
import { SyncError } from '../../../core/errors.ts';
import { usage } from '../../../core/usage-error.ts';
import { hasStore, purgeStore } from '../../../service/store/purge-store.ts';
import { storeConnector, storeFile } from '../../../service/store/store-file.ts';
import type { PurgedKeys, PurgeRequest } from '../../../sinks/purges.ts';
import { counted } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';

/** The indexed store that "serve" keeps of the same connector. */
export interface ServedStore {
  readonly folder: string;
  readonly connectorId: string;
}

export interface PurgedStore {
  readonly rows: number;
  /** Steps that could not be done now. */
  readonly left: number;
  /** Why the store may still hold the records; null: it does not. */
  readonly problem: string | null;
}

/** Null where none was named. Throws USAGE where there is none. */
export async function servedStore(
  { cwd }: CommandContext,
  { connector }: PurgeTarget,
  serveData: string | undefined,
): Promise<ServedStore | null> {
  if (serveData === undefined) return null;
  const folder = resolve(cwd, serveData);
  const connectorId = await storedConnectorId(connector);
  if (connectorId !== null && hasStore(folder, connectorId)) return { folder, connectorId };
  throw usage(`${folder} has no indexed store of ${connector.name}. Nothing was removed.`);
}

/**
 * What was purged from the sink, and what the choice finds in the store itself: a purge that is repeated finds nothing
 * in the sink.
 */
export async function purgeServed(
  { clock }: CommandContext,
  { folder, connectorId }: ServedStore,
  { entities }: PurgeTarget,
  asked: Omit<PurgeRequest, 'removeFile'> & { readonly choice: PurgeChoice },
): Promise<PurgedStore> {
  const { choice, ...request } = asked;
  try {
    const sink = { type: 'sqlite', path: storeFile(folder, connectorId) } as const;
    const own = await chooseRecords({ name: storeConnector, sink, entities }, choice, request.signal);
    const of = merged([...request.of, ...own.of]);
    const end = await purgeStore({ folder, connectorId, clock }, { ...request, of });
    if (end === null) return { rows: 0, left: 0, problem: null };
    return {
      rows: end.entities.reduce((sum, one) => sum + one.rows, 0),
      left: end.left.length,
      problem: null,
    };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return { rows: 0, left: 0, problem: error.message };
  }
}

export function servedText({ rows, problem }: PurgedStore): string {
  return problem === null
    ? `serve: ${counted(rows, 'row')} removed from its indexed store`
    : `The indexed store of serve may still hold them: ${problem} Then repeat the purge.`;
}

function merged(all: readonly PurgedKeys[]): readonly PurgedKeys[] {
  const entities = new Set(all.map(({ entity }) => entity));
  return [...entities].map((entity) => ({
    entity,
    keyTexts: [...new Set(all.flatMap((one) => (one.entity === entity ? one.keyTexts : [])))],
  }));
}
