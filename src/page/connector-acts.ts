import { acknowledgeFields, fieldsToAcknowledge } from '../app/acknowledge-fields.ts';
import {
  checkRunnable,
  defaultReason,
  pauseConnectors,
  queuedText,
  resumeConnectors,
  runNow,
  unreachedText,
  type OnQueued,
} from '../app/control-connectors.ts';
import { usage } from '../core/usage-error.ts';
import { connectorNamed } from '../settings/choices.ts';
import { newsName } from '../sinks/drift.ts';
import { count, counted } from '../telemetry/format.ts';
import type { ActQuery, ActWorld, Prepare } from './prepared-act.ts';
import { matchingConnectors, type ListedConnector } from './read-overview-page.ts';

/** What a person can do with one connector, or with all that the overview shows: by the functions of `schedule`. */
export const connectorActs = {
  'run-now': async (query, world) => {
    const { settings, program } = world;
    const { chosen, connectors, names, back, rest } = await choose(
      query,
      world,
      'are paused',
      (one) => !isPaused(one),
    );
    if (chosen.length === 0) throw usage(`Nothing to run: ${rest.join(' ')} Resume first.`);
    await checkRunnable(settings, connectors, program);
    return {
      title: `Run ${named(chosen)} now`,
      says: [`A worker reads ${list(chosen)} as soon as it has room, as if the schedule had come.`, ...rest],
      of: names,
      back,
      act: async ({ who, tell }) => {
        const onQueued: OnQueued = ({ name }, job) => tell(`${name}: ${queuedText(job)}.`);
        await runNow(settings, connectors, { by: who }, { program, onQueued });
      },
    };
  },
  pause: async (query, world) => {
    const { settings, clock, signal } = world;
    const { chosen, connectors, names, back, rest } = await choose(
      query,
      world,
      'are paused already',
      (one) => !isPaused(one),
    );
    if (chosen.length === 0) throw usage(`Nothing to pause: ${rest.join(' ')}`);
    return {
      title: `Pause ${named(chosen)}`,
      says: [
        `Until a person resumes, no scheduled run starts of ${list(chosen)}.`,
        'A run that is in progress continues.',
        ...rest,
      ],
      of: names,
      back,
      asksReason: true,
      act: async ({ who, reason, tell }) => {
        const text = reason.trim() === '' ? defaultReason : reason;
        const problem = await pauseConnectors(settings, connectors, text, {
          who,
          clock,
          signal,
          onPaused: ({ name }, _pause, run) =>
            tell(`${name}: paused${run === null ? '' : `; its run ${run} continues`}.`),
        });
        if (problem !== null) tell(unreachedText(problem));
      },
    };
  },
  resume: async (query, world) => {
    const { settings, clock, signal } = world;
    const { chosen, connectors, names, back, rest } = await choose(query, world, 'are not paused', isPaused);
    if (chosen.length === 0) throw usage(`Nothing to resume: ${rest.join(' ')}`);
    return {
      title: `Resume ${named(chosen)}`,
      says: [`Scheduled runs start again, of ${list(chosen)}.`, ...rest],
      of: names,
      back,
      act: async ({ who, tell }) => {
        const problem = await resumeConnectors(settings, connectors, {
          who,
          clock,
          signal,
          onResumed: ({ name }, wasPaused) => tell(`${name}: ${wasPaused ? 'resumed' : 'was not paused'}.`),
        });
        if (problem !== null) tell(unreachedText(problem));
      },
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
      act: async ({ who, tell }) => {
        const onQueued: OnQueued = (_connector, job) => {
          const text = queuedText(job);
          if (job.isNew) return tell(`${name}: ${text}.`);
          throw usage(`${name} is ${text}, without allowing deletes. Ask again when that run has ended.`);
        };
        await runNow(settings, [one.connector], { by: who, allowDeletes: true }, { program, onQueued });
      },
    };
  },
  'acknowledge-fields': async (query, world) => {
    const { connector, overview } = await oneConnector(query.connector, world);
    const { name } = connector;
    const fields = fieldsToAcknowledge(connector, overview, world.clock.now());
    const names = fields.map(newsName);
    return {
      title: `Mark new fields of ${name} as known`,
      says: [
        `These fields no longer stand under "Needs a person": ${names.join(', ')}.`,
        'Nothing changes in what is stored or how it is read. Fields that come later stand there again.',
      ],
      of: [name, ...names],
      back: `connectors/${name}`,
      act: async ({ who, tell }) => {
        await acknowledgeFields(connector, fields, { ...world, who });
        tell(`${name}: ${counted(fields.length, 'field')} marked as known.`);
      },
    };
  },
} satisfies Record<string, Prepare>;

const isPaused = ({ overview }: ListedConnector): boolean => (overview?.paused ?? null) !== null;

/** Those to act on; `rest` says what the others are, in words. */
async function choose(
  query: ActQuery,
  world: ActWorld,
  others: string,
  isFor: (one: ListedConnector) => boolean,
) {
  const { settings, watched, clock } = world;
  const all =
    query.connector === ''
      ? (await matchingConnectors([...settings.connectors.values()], watched, query, clock.now())).matching
      : [await oneConnector(query.connector, world)];
  if (all.length === 0) throw usage('No connector matches.');
  const chosen = all.filter(isFor);
  const connectors = chosen.map(({ connector }) => connector);
  const left = all.filter((one) => !isFor(one));
  const rest =
    left.length === 0 ? [] : [`${list(left)} ${left.length === 1 ? others.replace('are', 'is') : others}.`];
  const back = query.connector === '' ? '' : `connectors/${query.connector}`;
  return { chosen, connectors, names: connectors.map(({ name }) => name), rest, back };
}

/** Throws USAGE for an unknown name, and what keeps its sink from being read. */
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

function named(chosen: readonly ListedConnector[]): string {
  const [first] = chosen;
  return first !== undefined && chosen.length === 1
    ? first.connector.name
    : counted(chosen.length, 'connector');
}

const mostNamed = 50;

function list(chosen: readonly ListedConnector[]): string {
  const names = chosen.slice(0, mostNamed).map(({ connector }) => connector.name);
  const more = chosen.length - mostNamed;
  return `${names.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
}
