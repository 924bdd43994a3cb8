import { hostname } from 'node:os';
import { type Clock, instant, slept, systemClock } from '../core/clock.ts';
import { isPutOff, SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { RunId } from '../core/names.ts';
import { refuseTodos } from '../definitions/definition.ts';
import { type ChosenEntities, selectEntities } from '../engine/chosen-entities.ts';
import type { RunOptions } from '../engine/plan-run.ts';
import { failedStart, syncConnector } from '../engine/sync-connector.ts';
import type { Notifier } from '../notify/open-notifier.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { openFileFolder } from '../sinks/files/open-file-folder.ts';
import type { ConnectorIdentity, Holder } from '../sinks/lease.ts';
import { accessSink } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { OpenSharedSink } from '../sinks/share-sinks.ts';
import type { LedgerReader, Sink } from '../sinks/sink-access.ts';
import type { FileSource, ConnectorOrigin } from '../source/source.ts';
import type { App, AppOptions, AskedRun, RunEnd, SyncRequest } from './app.ts';
import { applyRetention } from './apply-retention.ts';
import { openJournal } from './journal-writer.ts';

/** Dependencies of a run. */
export interface RunParts extends AppOptions {
  readonly openSource: App['openSource'];
  readonly openSink: OpenSharedSink;
}

/**
 * The longest time to wait for the promise of a listener: it must not delay a command or a worker's next job for long.
 */
const longestTellMs = 5_000;

interface TellOptions extends Pick<AppOptions, 'clock' | 'onRunEnd'> {
  /** Absent where a person waits for the run: a repair. */
  readonly notifier?: Pick<Notifier, 'runEnded'>;
}

/**
 * Every run of a connector's own sink ends here, whatever started it (a command, a worker, a repair, a program that
 * uses the library). Work for the end of every run belongs here; output of a single caller belongs in its `onRunEnd`.
 * `run` resolves with null if there was nothing to do.
 */
export async function tellEnd<Report extends RunReport | null>(
  options: TellOptions,
  connector: ConnectorSettings,
  asked: AskedRun,
  run: () => Promise<Report>,
): Promise<Report> {
  let report: Report;
  try {
    report = await run();
  } catch (error) {
    await tell(options, { kind: 'failed', connector, asked, error });
    throw error;
  }
  if (report !== null) await tell(options, { kind: 'ended', connector, asked, report });
  return report;
}

async function tell({ clock, onRunEnd = () => undefined, notifier }: TellOptions, end: RunEnd) {
  const told = [onRunEnd(end), notifier?.runEnded(endOf(end))].filter((one) => one !== undefined);
  if (told.length === 0) return;
  const enough = new AbortController();
  await Promise.race([Promise.all(told), slept(clock, longestTellMs, enough.signal)]);
  enough.abort();
}

function endOf(end: RunEnd): Parameters<Notifier['runEnded']>[0] {
  const { connector, asked } = end;
  const kind = asked.kind ?? 'sync';
  if (end.kind === 'failed') return { connector, kind, error: end.error, isGood: false };
  const { outcome, resumeAt } = end.report;
  // A limit that the caller has set ends a run as it should.
  const isGood = outcome === 'ok' || (outcome === 'partial' && resumeAt === null);
  return { connector, kind, error: null, isGood };
}

/**
 * Reads a connector into the sink that its settings name; `onRunEnd` is not called for it. A run that cannot begin is
 * entered into the ledger with its reason, and rejects.
 */
export async function readConnector(parts: RunParts, connector: ConnectorSettings, request: SyncRequest) {
  const { clock, openSink, sinkIdOf } = parts;
  const { globs, onEvent, run = {}, signal } = request;
  const { entities } = selectEntities(connector.definition, connector.entities, globs);
  const sinkId = sinkIdOf?.(connector.sink) ?? null;
  const access = accessSink(connector.sink);
  const isNew = sinkId === null && connector.sink.type !== 'postgres' && !(await access.isThere());
  await using shared = await openSink(connector.sink, {
    signal,
    sinkId,
    onAway: (away) => onEvent(away === null ? { kind: 'sink-back' } : { kind: 'sink-away', ...away }),
  });
  const { sink } = shared;
  if (isNew) onEvent({ kind: 'sink-made', sink: connector.sink.name, place: access.place });
  const startedAt = instant(clock.now());
  let hasBegun = false;
  const journal = openJournal(connector.name, parts);
  const noting: SyncRequest['onEvent'] = (event) => {
    hasBegun ||= event.kind === 'run-started';
    journal.onEvent(event);
    onEvent(event);
  };
  try {
    return await readInto(sink, parts, connector, { ...request, onEvent: noting, entities, journal });
  } catch (error) {
    if (!hasBegun && !signal.aborted && !isPutOff(error)) {
      const { kind = 'sync' } = run;
      const failed = { connector: connector.name, kind, startedAt, finishedAt: instant(clock.now()) };
      // If the ledger itself fails, the caller's error, the log and the metrics report the failure.
      await sink
        .enterFailedStart(failedStart(failed, error), journal.text() ?? undefined)
        .catch(() => undefined);
    }
    throw error;
  }
}

interface ReadRequest extends SyncRequest {
  readonly entities: ChosenEntities;
  readonly journal: ReturnType<typeof openJournal>;
}

async function readInto(
  sink: Sink,
  parts: RunParts,
  connector: ConnectorSettings,
  { entities, journal, onEvent, run = {}, signal }: ReadRequest,
): Promise<RunReport> {
  const { settings, clock } = parts;
  const { definition } = connector;
  refuseTodos(connector.name, definition, entities);
  const { name, storedIn } = connector;
  // `readAside` reads into another sink than the one that holds the connector's rows.
  const known =
    storedIn.sink === connector.sink ? { stored: (await sink.history.origins([name]))[0] ?? null } : {};
  const maxCalls = run.maxCalls ?? null;
  const { onExchange } = journal;
  await using source = await parts.openSource(connector, signal, { onEvent, onExchange, maxCalls, ...known });
  await using cancel = watchCancel(sink.history);
  const origin = await source.origin(signal);
  const report = await syncConnector({
    identity: connectorIdentity(connector, origin, parts),
    definition,
    entities,
    source,
    sink,
    concurrency: connector.concurrency,
    requestsPerSecond: connector.requestsPerSecond,
    doubtsAccount: !origin.isAccount,
    files: filesOf(connector, source, clock),
    clock,
    journal,
    run: { ...run, ...actOf(run), guards: settings.guards },
    onEvent: (event) => {
      cancel.onEvent(event);
      onEvent(event);
    },
    signal: AbortSignal.any([signal, cancel.signal]),
  });
  if (report.outcome === 'ok') await removeExpired(parts, connector, sink, { onEvent, signal });
  return report;
}

/**
 * Removes expired data after a sync. Data that cannot be removed now is removed by a later run, or by `prune`, which
 * reports why.
 */
async function removeExpired(
  { settings, clock }: RunParts,
  connector: ConnectorSettings,
  { purges }: Pick<Sink, 'purges'>,
  { onEvent, signal }: Pick<SyncRequest, 'onEvent' | 'signal'>,
): Promise<void> {
  try {
    const { withheld } = await applyRetention(settings, connector, purges, { clock, signal, isAsked: false });
    for (const event of withheld) onEvent(event);
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
  }
}

/** Only a person asks for these. */
function actOf({ act, allowDeletes, isFull }: AskedRun): Pick<RunOptions, 'act'> {
  if (act !== undefined) return { act };
  if (allowDeletes === true) return { act: { action: 'allow-deletes' } };
  return isFull === true ? { act: { action: 'read-in-full' } } : {};
}

/** The holder that a process acquires a connector as; `command` is shown to the second one that wants it. */
export function connectorIdentity(
  { name, definition }: ConnectorSettings,
  { baseUrl, connectorId }: Pick<ConnectorOrigin, 'baseUrl' | 'connectorId'>,
  options: HolderOptions,
): ConnectorIdentity {
  return {
    connector: name,
    baseUrl,
    connectorId,
    definition: definition.name,
    definitionHash: definition.contentHash,
    holder: holderOf(options),
  };
}

type HolderOptions = Pick<AppOptions, 'clock' | 'command' | 'work'>;

export function holderOf({ clock, command, work }: HolderOptions): Holder {
  const holder = { pid: process.pid, host: hostname(), command, since: instant(clock.now()) };
  return work === undefined ? holder : { ...holder, work };
}

function filesOf({ name, downloads }: ConnectorSettings, source: FileSource, clock: Clock) {
  if (downloads === null) return null;
  const { directory, entities, maxBytes } = downloads;
  const folder = openFileFolder({ directory, connector: name, clock });
  return { source, folder, entities: new Set(entities), maxBytes };
}

/** A check is cheap, and a person who cancels waits for the answer. */
const everyMs = 1000;

/**
 * Checks the ledger about once a second for a request to end the run: it may come from any process that can open the
 * sink.
 */
function watchCancel(history: Pick<LedgerReader, 'isCancelRequested'>) {
  const cancelled = new AbortController();
  let over = new AbortController();
  let watching: Promise<void> = Promise.resolve();
  const watch = async (run: RunId, signal: AbortSignal): Promise<void> => {
    while (await slept(systemClock, everyMs, signal)) {
      // A ledger that cannot be read is read again in a second; the run itself fails on the problem.
      const isRequested = await history.isCancelRequested(run).catch(() => false);
      if (!isRequested || signal.aborted) continue;
      const message = `run ${run} was cancelled by a request`;
      return cancelled.abort(new SyncError(message, { code: 'CANCELLED', recovery: 'stop' }));
    }
  };
  return {
    /** Aborted with `SyncError` CANCELLED once the ledger has a request to end the run. */
    signal: cancelled.signal,
    /** Sets which run it is: the watch begins with its start. */
    onEvent: (event: RunEvent): void => {
      if (event.kind !== 'run-started' && event.kind !== 'run-finished') return;
      over.abort();
      if (event.kind === 'run-finished') return;
      over = new AbortController();
      watching = watch(event.run, over.signal);
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      over.abort();
      await watching;
    },
  };
}
