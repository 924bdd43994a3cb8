import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { instant, slept, type Clock, type Instant } from '../core/clock.ts';
import { SyncError, type ErrorCode } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { Log } from '../telemetry/log.ts';

export interface ReloadOutcome {
  readonly outcome: 'applied' | 'unchanged' | 'refused';
  /** What has changed, or why the config was refused. */
  readonly text: string;
}

interface ReloadsOptions<Config extends { readonly settings: LocalSettings }> {
  readonly first: Config;
  /** Reads the config again. Rejects where it cannot be used. */
  readonly read: () => Promise<Config>;
  /** Makes it the one in force. Where it rejects, the one before still is. */
  readonly apply: (next: Config) => Promise<void>;
  /** After each reload; `refusedSince`: since when a config had been refused before it, null: none had. */
  readonly onReload?: (done: ReloadOutcome, refusedSince: Instant | null) => void;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when files are no longer to be followed. */
  readonly signal: AbortSignal;
}

/** One look costs the times of some files. */
const lookEveryMs = 2_000;
/** For ten seconds and some. */
const mostTries = 5;
/** After this a config is tried again that was refused for what may pass, then after twice as long. */
const firstPauseMs = 10_000;
const longestPauseMs = 5 * 60_000;

/** What is wrong with a config itself, or with what it names: that only a person can mend. */
const ofConfig: ReadonlySet<ErrorCode> = new Set([
  'USAGE',
  'CONFIG_INVALID',
  'DEFINITION_INVALID',
  'SINK_INCOMPATIBLE',
  'TARGET_INCOMPATIBLE',
  'PACKAGE_MISSING',
] as const);

/**
 * The config of a process that reads it again while it works. A config that cannot be used changes nothing: the one
 * before stays in force, and the log and `problem` say so.
 */
export function openReloads<Config extends { readonly settings: LocalSettings }>({
  first,
  read,
  apply,
  onReload = () => undefined,
  log,
  clock,
  signal,
}: ReloadsOptions<Config>) {
  let problem: { readonly text: string; readonly since: Instant; readonly mayPass: boolean } | null = null;
  let inForce = { settings: first.settings, since: instant(clock.now()) };
  /** What the newest readable config was read from, and its state before that. */
  let seen = seenAt(first.settings.places);

  /** A process under load may miss an answer of Redis, and a sink may be busy: that is no mistake of the config. */
  const applyPatiently = async (next: Config): Promise<void> => {
    for (let tried = 1; ; tried += 1) {
      try {
        return await apply(next);
      } catch (error) {
        if (!mayPass(error) || tried === mostTries) throw error;
        if (!(await slept(clock, tried * 1_000, signal))) throw error;
      }
    }
  };
  const attempt = async (): Promise<ReloadOutcome> => {
    try {
      // Taken before the read, so that a change during a long one is found later.
      seen = seenAt(seen.places);
      const next = await read();
      if (next.settings.places.join('\n') !== seen.places.join('\n')) seen = seenAt(next.settings.places);
      const text = changesText(inForce.settings, next.settings);
      if (text === null) {
        problem = null;
        log.info({}, 'the config has not changed');
        return { outcome: 'unchanged', text: 'nothing has changed' };
      }
      await applyPatiently(next);
      problem = null;
      inForce = { settings: next.settings, since: instant(clock.now()) };
      return { outcome: 'applied', text };
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      const kept = `The config was read again and cannot be used, so the one of ${inForce.since} stays in force.`;
      problem = {
        text: `${kept} ${text}`,
        since: problem?.since ?? instant(clock.now()),
        mayPass: mayPass(error),
      };
      log.error(
        { err: error },
        'the config was read again and cannot be used: the one before stays in force',
      );
      return { outcome: 'refused', text };
    }
  };
  const readAgain = async (): Promise<ReloadOutcome> => {
    const refusedSince = problem?.since ?? null;
    const done = await attempt();
    onReload(done, refusedSince);
    return done;
  };
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ReloadOutcome> | null = null;
  /** One that is asked for while another waits for its turn is that one. Never rejects. */
  const reload = (): Promise<ReloadOutcome> => {
    waiting ??= running.then(async () => {
      waiting = null;
      const reading = readAgain();
      running = reading;
      return await reading;
    });
    return waiting;
  };
  return {
    reload,
    /** What people are to know; null: nothing. */
    problem: (): string | null => problem?.text ?? null,
    settings: (): Config['settings'] => inForce.settings,
    /**
     * Until the signal: tries again a reload that was refused for a reason that may pass, while its files stay the
     * same; with `watch: true` it also reloads when they have changed.
     */
    followFiles: async (): Promise<void> => {
      let before = seen.state;
      let pauseMs = firstPauseMs;
      let againMs: number | null = null;
      while (await slept(clock, lookEveryMs, signal)) {
        const { watch } = inForce.settings;
        if (problem === null) [pauseMs, againMs] = [firstPauseMs, null];
        else againMs ??= clock.now() + firstPauseMs;
        if (!watch && problem?.mayPass !== true) continue;
        const now = seenAt(seen.places).state;
        // An editor or a deploy writes several files: wait until they are still.
        const isStill = now === before;
        before = now;
        const isAgain = now === seen.state;
        const isDue = isAgain ? problem?.mayPass === true && clock.now() >= (againMs ?? 0) : watch;
        if (!isStill || !isDue) continue;
        pauseMs = isAgain ? Math.min(2 * pauseMs, longestPauseMs) : firstPauseMs;
        await reload();
        againMs = clock.now() + pauseMs;
        before = seen.state;
      }
    },
  };
}

function mayPass(error: unknown): boolean {
  return !(error instanceof SyncError && ofConfig.has(error.code));
}

/** Sizes and times of everything that the settings were read from. */
function seenAt(places: LocalSettings['places']) {
  const stateOfFile = (place: string): string => {
    const found = statSync(place, { throwIfNoEntry: false });
    return `${place} ${found?.mtimeMs} ${found?.size} ${found?.ino}`;
  };
  const stateOfPlace = (place: string): readonly string[] => {
    if (statSync(place, { throwIfNoEntry: false })?.isDirectory() !== true) return [stateOfFile(place)];
    return readdirSync(place).map((name) => stateOfFile(path.join(place, name)));
  };
  return { places, state: places.flatMap(stateOfPlace).join('\n') };
}

/** What the newer settings change, for people; null where nothing differs. */
function changesText(before: LocalSettings, now: LocalSettings): string | null {
  const isSame = openComparison();
  const [old, next] = [before.connectors, now.connectors];
  const parts = [
    countText(
      'added',
      [...next.keys()].filter((name) => !old.has(name)),
    ),
    countText(
      'removed',
      [...old.keys()].filter((name) => !next.has(name)),
    ),
    countText(
      'changed',
      [...next.keys()].filter((name) => old.has(name) && !isSame(old.get(name), next.get(name))),
    ),
  ].filter((part) => part !== '');
  if (parts.length > 0) return parts.join('; ');
  return isSame(before, now) ? null : 'settings besides connectors changed';
}

const mostNames = 10;

function countText(what: string, names: readonly string[]): string {
  if (names.length === 0) return '';
  const more = names.length > mostNames ? ` and ${names.length - mostNames} more` : '';
  return `${what}: ${names.slice(0, mostNames).join(', ')}${more}`;
}

/**
 * Whether two values of two readings of a config say the same, secrets included. Two objects are compared once:
 * connectors share definitions and sinks.
 */
function openComparison(): (left: unknown, right: unknown) => boolean {
  const known = new Map<object, { readonly other: object; readonly isSame: boolean }>();
  const isSame = (left: unknown, right: unknown): boolean => {
    if (left === right) return true;
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) {
      return typeof left === typeof right && String(left) === String(right);
    }
    const found = known.get(left);
    if (found?.other === right) return found.isSame;
    const [parts, others] = [partsOf(left), partsOf(right)];
    const answer = parts.length === others.length && parts.every((part, at) => isSame(part, others[at]));
    known.set(left, { other: right, isSame: answer });
    return answer;
  };
  return isSame;
}

/** What makes a value: kind, then names and values, or elements. */
function partsOf(value: object): readonly unknown[] {
  if (value instanceof Secret) return ['secret', value.reveal()];
  if (value instanceof RegExp) return ['pattern', String(value)];
  if (value instanceof Map) return ['map', ...[...value].flat()];
  if (value instanceof Set) return ['set', ...value];
  if (Array.isArray(value)) return ['list', ...value];
  return ['object', ...Object.entries(value).flat()];
}
