import { lstatSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConnectorName } from '../core/names.ts';
import { usage } from '../core/errors.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import { openExistingHistory, openSink, statusOf } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { holderOf } from './run-connector.ts';
import { type SignedOut, signOut } from './sign-in.ts';

type How = Pick<OpenHow, 'clock'> & { readonly signal: AbortSignal };

/** Data of a connector that a sink stores. `runs`: those in the history, a thousand at most. */
export type StoredConnector = Awaited<ReturnType<typeof storedConnector>>[number];

const mostRuns = 1_000;

/** Data of the connector, for each sink that stores any. */
export async function storedConnector(name: ConnectorName, sinks: readonly SinkSettings[]) {
  const stored = [];
  for (const sink of sinks) {
    await using history = await openExistingHistory(sink);
    if (history === null) continue;
    const status = await statusOf(history, name);
    const runs = await history.runs({ connector: name, limit: mostRuns });
    const copy = await history.unfinishedCopy(name);
    if (status === null && copy === null && runs.length === 0) continue;
    stored.push({ sink, entities: status?.entities ?? [], runs: runs.length });
  }
  return stored;
}

interface RemoveRequest extends How {
  readonly name: ConnectorName;
  readonly sink: SinkSettings;
  /** Null if the config no longer has the connector: then the location of its files is unknown. */
  readonly connector: ConnectorSettings | null;
  readonly settings: LocalSettings;
  /** Called while no other process can use the connector, before its rows go. */
  readonly beforeRows: () => Promise<void>;
}

/**
 * Drops everything that a sink stores for a connector, its files and its sign-in. Does not wait for a run that holds
 * it. If it was killed or interrupted, call it again. Throws `ConnectorBusyError`.
 */
export async function removeStored(request: RemoveRequest): Promise<SignedOut | null> {
  const { name, sink: sinkSettings, connector, settings, clock, signal, beforeRows } = request;
  if (connector !== null) checkFolder(connector);
  await using sink = await openSink(sinkSettings, { clock, signal });
  let signedOut: SignedOut | null = null;
  const before = async (): Promise<void> => {
    const folder = connector === null ? null : folderOf(connector);
    if (folder !== null) await rm(folder, { recursive: true, force: true });
    const isSignedIn = connector?.address.kind === 'direct' && connector.address.signIn !== null;
    if (isSignedIn) signedOut = await signOut({ settings, connector, clock }, signal);
    await beforeRows();
  };
  const holder = holderOf({ command: `connector-sync connectors remove ${name}`, clock });
  await sink.repair.remove(name, { holder, before });
  return signedOut;
}

/** The folder of the connector's files, which holds nothing else. */
function folderOf({ name, downloads }: ConnectorSettings): string | null {
  return downloads === null ? null : join(downloads.directory, name);
}

function checkFolder(connector: ConnectorSettings): void {
  const folder = folderOf(connector);
  const found = folder === null ? undefined : lstatSync(folder, { throwIfNoEntry: false });
  if (folder === null || found === undefined || found.isDirectory()) return;
  throw usage(
    `${folder} was expected to be the folder with the files of ${connector.name}, and is a link or a file. Nothing was removed; look what is there first.`,
  );
}
