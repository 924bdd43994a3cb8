import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import type { CopiedAway, UnfinishedCopy } from './requests.ts';
import type { Holder, Lease, StoredIdentity } from './lease.ts';

/**
 * Another process, or another lease of this one, holds the connector. `holder` is null when it has not introduced
 * itself yet.
 */
export class ConnectorBusyError extends SyncError {
  override readonly name = 'ConnectorBusyError';
  readonly holder: Holder | null;

  constructor(connector: ConnectorName, holder: Holder | null) {
    const { work: _work, ...where }: Partial<Holder> = holder ?? {};
    const who =
      holder === null
        ? 'another process'
        : `process ${holder.pid} on ${holder.host} since ${holder.since} (${holder.command})`;
    super(
      `Connector "${connector}" is held by ${who}; one run at a time may write it. Wait for that run to end, or stop it.`,
      {
        code: 'CONNECTOR_BUSY',
        recovery: 'stop',
        context: { connector, ...where },
      },
    );
    this.holder = holder;
  }
}

/** The sink holds this connector's records under another identity; mixing the two would corrupt both. */
export class IdentityChangedError extends SyncError {
  override readonly name = 'IdentityChangedError';

  constructor(connector: ConnectorName, differences: readonly IdentityDifference[]) {
    const changes = differences
      .map(({ what, stored, given }) => `${what} was ${stored} and is now ${given}`)
      .join('; ');
    super(
      `Connector "${connector}" was synced from another origin: ${changes}. Nothing was read, and what is stored stays. ` +
        (differences.some(({ what }) => what === 'definition')
          ? 'Correct the config, or give the new connector another name.'
          : `Correct the config if that is a mistake. If it is the same account, "connector-sync adopt ${connector}" compares the records and takes the new address over; another account needs another connector name.`),
      {
        code: 'IDENTITY_CHANGED',
        recovery: 'stop',
        context: { connector, changed: differences.map(({ what }) => what).join(', ') },
      },
    );
  }
}

/** Two connectors whose tables would have the same names (`a-b` and `a_b`). */
export function sharedTablesError(connector: ConnectorName, rival: string): SyncError {
  return new SyncError(
    `Connectors "${connector}" and "${rival}" would share tables in this sink. Rename one of them.`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, rival } },
  );
}

/** Another holder has or had the connector since, or the server failed over. Run again: it may be free. */
export function overtakenError({ connector, epoch }: Pick<Lease, 'connector' | 'epoch'>): SyncError {
  return new SyncError(
    `Writing as holder of connector "${connector}" was refused: epoch ${epoch} was overtaken. What is stored stays; a later run resumes from it.`,
    { code: 'FENCED', recovery: 'retry', context: { connector, epoch } },
  );
}

/** The server, which did not wait for its disk, was killed. */
export function lostCommitsError(connector: ConnectorName): SyncError {
  return new SyncError(
    `The server was killed and has lost the last commits of connector "${connector}", which were not on its disk yet (durability: normal, or fsync = off). ` +
      'This run ends here. Sync again: the next run resumes from what is stored, and reads the rest again.',
    { code: 'FENCED', recovery: 'retry', context: { connector } },
  );
}

/** The holder of a lease names a run that is not the lease's. */
export function fencedError({ connector, epoch }: Pick<Lease, 'connector' | 'epoch'>, why: string) {
  return new SyncError(
    `Writing as holder of connector "${connector}" was refused: ${why}. Stop this run: a newer one has taken over.`,
    { code: 'FENCED', recovery: 'stop', context: { connector, epoch } },
  );
}

export function releasedError(connector: ConnectorName): SyncError {
  return new SyncError(
    `The lease of connector "${connector}" was given back, so nothing may be written with it. Acquire it again.`,
    { code: 'FENCED', recovery: 'stop', context: { connector } },
  );
}

export function noPartitionError(connector: ConnectorName, partition: number): SyncError {
  return new SyncError(
    `Partition ${partition} of connector "${connector}" is not, or no longer, in the ledger. Stop this run: a newer one has taken over.`,
    { code: 'FENCED', recovery: 'stop', context: { connector, partition } },
  );
}

/** Differences between the stored identity of a connector and the given one. */
export function identityDifferences(stored: StoredIdentity, given: StoredIdentity) {
  const all: readonly IdentityDifference[] = [
    { what: 'base URL', stored: stored.baseUrl, given: given.baseUrl },
    { what: 'connector id', stored: stored.connectorId, given: given.connectorId },
    { what: 'definition', stored: stored.definition, given: given.definition },
  ];
  return all.filter((one) => one.stored !== one.given);
}

export interface IdentityDifference {
  readonly what: 'base URL' | 'connector id' | 'definition';
  readonly stored: string;
  readonly given: string;
}

/** Only a part of the connector is in the sink so far. */
export function unfinishedCopyError({ connector, from, to, since }: UnfinishedCopy): SyncError {
  return new SyncError(
    `Sink ${to} holds only a part of connector "${connector}": its copy from sink ${from}, begun at ${since}, is not complete. ` +
      `To complete it: connector-sync copy --from ${from} --to ${to} ${connector}. To remove what it has stored: connector-sync copy --to ${to} --discard ${connector}.`,
    { code: 'COPY_UNFINISHED', recovery: 'stop', context: { connector, from, to } },
  );
}

/**
 * Refuses a run because the connector's syncs continue in another sink. Rows stored here would be in this sink alone,
 * under change numbers that the other sink assigns too.
 */
export function copiedAwayError({ connector, from, to, at }: CopiedAway): SyncError {
  return new SyncError(
    `Connector "${connector}" was copied from sink ${from} to sink ${to} at ${at}, so ${from} takes no more syncs of it. ` +
      `To continue in ${to}: set "sink: ${to}" for ${connector} in the config, and restart its workers. ` +
      `To continue in ${from} instead: connector-sync copy --from ${from} --reopen ${connector}.`,
    { code: 'COPIED_AWAY', recovery: 'stop', context: { connector, from, to } },
  );
}

/** A copy would mix two states of a connector. */
export function alreadyHeldError(connector: ConnectorName, to: string): SyncError {
  return new SyncError(
    `Sink ${to} holds connector "${connector}" already, and a copy never overwrites one. Copy into another sink, or drop what ${to} holds: ` +
      `set "sink: ${to}" for ${connector} in the config, then connector-sync reset ${connector} --data --yes.`,
    { code: 'USAGE', recovery: 'stop', context: { connector, to } },
  );
}

/** Signals that nothing was synced into the sink yet, or that another process is making it just now. */
export class NoSinkYetError extends SyncError {
  /** `place`: where a person finds the sink. */
  constructor(place: string) {
    super(`There is no sink at ${place} yet. Check its place in the settings, or run a sync first.`, {
      code: 'SINK_FAILED',
      recovery: 'stop',
      context: { place },
    });
  }
}

/** Refuses a place whose content cannot be used as a sink. */
export function unusableSink(place: string, found: string, advice: string, cause?: unknown): SyncError {
  return new SyncError(`${place} cannot be used as a sink: ${found}. ${advice}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { place },
    cause,
  });
}

/** Refuses the sink of a development version whose runs kept no journal. */
export function olderSink(place: string): SyncError {
  const found = 'a development version of connector-sync made it, without journals of its runs';
  return unusableSink(place, found, 'Nothing in it was changed. Name another place, and sync into that.');
}

/**
 * Explains why stored tables of this version cannot be used; null if they can. Each migration makes one more version.
 */
export function unknownVersion(version: number, newest: number): string | null {
  if (version >= 1 && version <= newest) return null;
  const expected = newest === 1 ? 'version 1' : `a version from 1 to ${newest}`;
  return `expected tables of ${expected}, found version ${version}, which another connector-sync wrote. Nothing in it was changed`;
}

/** Throws for a sink of a version that this program does not know. */
export function checkVersion(place: string, version: number, newest: number): void {
  const unknown = unknownVersion(version, newest);
  if (unknown === null) return;
  throw unusableSink(
    place,
    unknown,
    'Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place: that reads everything ' +
      'from the service again; records that the service no longer has, such as deleted ones, stay in the old sink only.',
  );
}

/** Throws for a sink that cannot be read yet: it is migrated when it is opened for writing. */
export function checkMigrated(place: string, version: number, newest: number): void {
  if (version === newest) return;
  throw unusableSink(
    place,
    `it has tables of version ${version}, and this program reads version ${newest}`,
    'Sync into it once, or start the worker: either migrates it, and keeps everything that is stored.',
  );
}
