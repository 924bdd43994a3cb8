import { createHash } from 'node:crypto';
import {
  checkRunnable,
  defaultReason,
  pauseConnectors,
  queuedText,
  resumeConnectors,
  runAllowingDeletes,
  runNow,
  type Tell,
} from '../app/control-connectors.ts';
import { cancelledText, cancelRun, checkRunning, findRun } from '../app/find-run.ts';
import { checkPublishable, publishNow } from '../app/publish-target.ts';
import { connectorOfRun, hasWritten, undoneTexts, undoRun } from '../app/undo-run.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { usage } from '../core/errors.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { connectorNamed, targetNamed } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { count, counted } from '../telemetry/format.ts';
import type { ActName } from './layout.ts';
import { type ListedConnector, matchingConnectors, type OverviewQuery } from './overview-page.ts';

/** The subject of an act as its address names it; parts that it does not name are empty. */
interface ActQuery extends Pick<OverviewQuery, 'q' | 'state'> {
  /** Empty: all that `q` and `state` match, as on the overview. */
  readonly connector: string;
  readonly run: string;
  readonly target: string;
}

export interface ActWorld {
  readonly settings: LocalSettings;
  readonly watched: WatchedSinks;
  readonly program: string;
  readonly clock: Clock;
  /** Ends slow work. */
  readonly signal: AbortSignal;
}

/** An act that can be done now. */
export interface PreparedAct {
  /** `Pause newsletter`. */
  readonly title: string;
  /** Exactly what will happen. */
  readonly says: readonly string[];
  /** Names of the connectors, or the run or target, that it would change. */
  readonly of: readonly string[];
  /** The address to return to, as the overview links there. */
  readonly back: string;
  /** A person may give a reason. */
  readonly asksReason?: true;
  /** Does it, with the function of the command; `tell` is called with each thing that was done. */
  readonly act: (how: ActHow) => Promise<void>;
}

interface ActHow {
  readonly who: string;
  readonly reason: string;
  readonly tell: Tell;
}

/** Throws `SyncError`, mostly USAGE, for what cannot be done now; then nothing was done. */
export type Prepare = (query: ActQuery, world: ActWorld) => Promise<PreparedAct>;

/** A form that carries another one was made before something changed: it does nothing. */
export function fingerprint({ title, of }: PreparedAct): string {
  return createHash('sha256')
    .update(JSON.stringify([title, of]))
    .digest('base64url');
}

/**
 * Acts of a person on one connector, on all that the overview shows, on a run or a target: by the functions of the
 * commands and the worker's queue.
 */
export const acts: Readonly<Record<ActName, Prepare>> = {
  'run-now': async (query, world) => {
    const { settings, program } = world;
    const others = { are: 'are paused', nothing: 'Nothing to run', advice: ' Resume first.' };
    const { connectors, named, list, rest, how } = await choose(query, world, isActive, others);
    await checkRunnable(settings, connectors, program);
    return {
      title: `Run ${named} now`,
      says: [`A worker reads ${list} as soon as it has room, as if the schedule had come.`, ...rest],
      ...how,
      act: async ({ who, tell }) => await runNow(settings, connectors, who, { program, tell }),
    };
  },
  pause: async (query, world) => {
    const others = { are: 'are paused already', nothing: 'Nothing to pause' };
    const { connectors, named, list, rest, how } = await choose(query, world, isActive, others);
    return {
      title: `Pause ${named}`,
      says: [
        `Until a person resumes, no scheduled run starts of ${list}.`,
        'A run that is in progress continues.',
        ...rest,
      ],
      ...how,
      asksReason: true,
      act: async ({ reason, ...told }) => {
        const text = reason.trim() === '' ? defaultReason : reason;
        await pauseConnectors(world.settings, connectors, text, { ...world, ...told });
      },
    };
  },
  resume: async (query, world) => {
    const others = { are: 'are not paused', nothing: 'Nothing to resume' };
    const { connectors, named, list, rest, how } = await choose(query, world, isPaused, others);
    return {
      title: `Resume ${named}`,
      says: [`Scheduled runs start again, of ${list}.`, ...rest],
      ...how,
      act: async (told) => await resumeConnectors(world.settings, connectors, { ...world, ...told }),
    };
  },
  'allow-deletes': async (query, world) => {
    const { settings, program } = world;
    const one = await oneConnector(query.connector, world);
    const { name } = one.connector;
    const withheld = (one.overview?.missing ?? []).filter((entity) => entity.withheld > 0);
    if (withheld.length === 0) throw usage(`No deletes of ${name} are withheld.`);
    await checkRunnable(settings, [one.connector], program);
    const rows = withheld.map((entity) => `${count(entity.withheld)} of ${entity.entity}`);
    return {
      title: `Allow the deletes of ${name} once`,
      says: [
        `A worker reads ${name} as soon as it has room.`,
        `Rows that still look deleted then are marked as deleted, even beyond the limits of the config (guards). At the last run these were ${rows.join(', ')}.`,
        'The runs after it withhold deletes again.',
      ],
      of: [name, ...rows],
      back: `connectors/${name}`,
      act: async ({ who, tell }) => await runAllowingDeletes(settings, one.connector, who, { program, tell }),
    };
  },
  cancel: async ({ run: id }, world) => {
    const found = await findRun(world.settings, id, world.program);
    const { connector } = found.run;
    checkRunning(found.run);
    return {
      title: `Cancel the run of ${connector}`,
      says: [
        `Run ${id} of ${connector}, which started at ${found.run.startedAt}, stops at its next page.`,
        'What it stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes, unless it is paused.',
      ],
      of: [id],
      back: `connectors/${connector}`,
      act: async ({ who, tell }) => {
        const ended = await cancelRun(found, { ...world, who });
        tell(cancelledText(found.run, ended));
      },
    };
  },
  undo: async ({ run: id }, world) => {
    const found = await findRun(world.settings, id, world.program);
    const connector = connectorOfRun(world.settings, found);
    const written = (found.run.report?.entities ?? []).filter(hasWritten);
    if (written.length === 0) throw usage(`Run ${id} of ${connector.name} has changed nothing.`);
    const rows = written.map(
      ({ entity, deleted, counts: { inserted, updated } }) =>
        `${entity} (${count(inserted)} inserted, ${count(updated)} updated, ${count(deleted)} deleted)`,
    );
    return {
      title: `Undo a run of ${connector.name}`,
      says: [
        `Rows that run ${id} inserted are marked as deleted, rows that it deleted come back, and rows that it updated are restored where the history has them: up to ${rows.join(', ')}.`,
        'Rows that were changed since stay as they are. The next run reads what it inserted or updated again, in full.',
      ],
      of: [id],
      back: `runs/${id}`,
      act: async ({ who, tell }) => {
        const how = { ...world, who, command: 'connector-sync, from a page' };
        const { run, entities } = await undoRun(connector, found.run.run, how);
        for (const [entity, one] of entities) for (const line of undoneTexts(entity, one)) tell(line);
        tell(
          entities.size === 0
            ? `${connector.name}: nothing that run ${id} did is left to undo`
            : `This was run ${run ?? ''}`,
        );
      },
    };
  },
  'publish-now': async ({ target: name }, { settings, program }) => {
    const target = targetNamed(settings, name);
    await checkPublishable(settings, target, program);
    const connectors = target.connectors.map((connector) => connector.name).join(', ');
    return {
      title: `Publish into ${name} now`,
      says: [
        `A worker publishes into ${name} what has changed since its last publication, of ${connectors}. It reads what is stored; no API is called.`,
      ],
      of: [name],
      back: `targets/${name}`,
      act: async ({ who, tell }) =>
        tell(`${name}: ${queuedText(await publishNow(settings, target, { by: who, program }))}`),
    };
  },
};

const isActive = (one: ListedConnector): boolean => !isPaused(one);
const isPaused = ({ overview }: ListedConnector): boolean => (overview?.paused ?? null) !== null;

/** The connectors to act on; `rest` describes the others. Throws USAGE if there are none. */
async function choose(
  query: ActQuery,
  world: ActWorld,
  isFor: (one: ListedConnector) => boolean,
  others: { readonly are: string; readonly nothing: string; readonly advice?: string },
) {
  const { settings, watched, clock } = world;
  const all =
    query.connector === ''
      ? (await matchingConnectors([...settings.connectors.values()], watched, query, clock.now())).matching
      : [await oneConnector(query.connector, world)];
  if (all.length === 0) throw usage('No connector matches.');
  const connectors = all.filter(isFor).map(({ connector }) => connector);
  const left = all.filter((one) => !isFor(one)).map(({ connector }) => connector);
  const are = left.length === 1 ? others.are.replace('are', 'is') : others.are;
  const rest = left.length === 0 ? [] : [`${listOf(left)} ${are}.`];
  const [first] = connectors;
  if (first === undefined) throw usage(`${others.nothing}: ${rest.join(' ')}${others.advice ?? ''}`);
  const back = query.connector === '' ? '' : `connectors/${query.connector}`;
  return {
    connectors,
    named: connectors.length === 1 ? first.name : counted(connectors.length, 'connector'),
    list: listOf(connectors),
    rest,
    how: { of: connectors.map(({ name }) => name), back },
  };
}

/** Throws USAGE for an unknown name, and the error of a sink that cannot be read. */
async function oneConnector(name: string, { settings, watched, clock }: ActWorld): Promise<ListedConnector> {
  const connector = connectorNamed(settings, name);
  const { matching, unreadable } = await matchingConnectors(
    [connector],
    watched,
    { q: '', state: null },
    clock.now(),
  );
  const [one] = matching;
  if (one !== undefined) return one;
  throw usage(`Sink ${connector.sink.name} cannot be read: ${unreadable[0]?.problem ?? 'no answer'}`);
}

function listOf(connectors: readonly ConnectorSettings[]): string {
  return firstNames(
    connectors.map(({ name }) => name),
    50,
  );
}
