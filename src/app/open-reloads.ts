import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { instant, slept, type Clock, type Instant } from '../core/clock.ts';
import { hasCode } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
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
/** Of a config whose Redis does not answer: for ten seconds and some. */
const mostTries = 5;

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
  let problem: { readonly text: string; readonly since: Instant } | null = null;
  let inForce = { settings: first.settings, since: instant(clock.now()) };

  /** A process under load may miss an answer of Redis: that is no mistake of the config. */
  const applyPatiently = async (next: Config): Promise<void> => {
    for (let tried = 1; ; tried += 1) {
      try {
        return await apply(next);
      } catch (error) {
        if (!hasCode(error, 'QUEUE_UNAVAILABLE') || tried === mostTries) throw error;
        if (!(await slept(clock, tried * 1_000, signal))) throw error;
      }
    }
  };
  const attempt = async (): Promise<ReloadOutcome> => {
    try {
      const next = await read();
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
      problem = { text: `${kept} ${text}`, since: problem?.since ?? instant(clock.now()) };
      log.error(
        { err: error },
        'the config was read again and cannot be used: the one before stays in force',
      );
      return { outcome: 'refused', text };
    }
  };
  const readAnew = async (): Promise<ReloadOutcome> => {
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
      const reading = readAnew();
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
    /** Reloads by itself, while the config has `watch: true`, when its files have changed, until the signal. */
    followFiles: async (): Promise<void> => {
      let known = stateOf(inForce.settings);
      let before = known;
      while (await slept(clock, lookEveryMs, signal)) {
        if (!inForce.settings.watch) continue;
        const now = stateOf(inForce.settings);
        // An editor or a deploy writes several files: wait until they are still.
        const isStill = now === before;
        before = now;
        if (now === known || !isStill) continue;
        await reload();
        known = stateOf(inForce.settings);
        before = known;
      }
    },
  };
}

/** Sizes and times of everything that the settings were read from. */
function stateOf({ places }: LocalSettings): string {
  const stateOfFile = (place: string): string => {
    const found = statSync(place, { throwIfNoEntry: false });
    return `${place} ${found?.mtimeMs} ${found?.size} ${found?.ino}`;
  };
  const stateOfPlace = (place: string): readonly string[] => {
    if (statSync(place, { throwIfNoEntry: false })?.isDirectory() !== true) return [stateOfFile(place)];
    return readdirSync(place).map((name) => stateOfFile(path.join(place, name)));
  };
  return places.flatMap(stateOfPlace).join('\n');
}

/** What the newer settings change, for people; null where nothing differs. */
function changesText(before: LocalSettings, now: LocalSettings): string | null {
  const digests = [before, now].map((settings) => settingsDigest(settings));
  if (digests[0]?.whole === digests[1]?.whole) return null;
  const [old, next] = digests.map((digest) => digest.connectors);
  const added = [...(next?.keys() ?? [])].filter((name) => old?.has(name) !== true);
  const removed = [...(old?.keys() ?? [])].filter((name) => next?.has(name) !== true);
  const changed = [...(next ?? [])].filter(([name, digest]) => old?.has(name) && old.get(name) !== digest);
  const parts = [
    countText('added', added),
    countText('removed', removed),
    countText(
      'changed',
      changed.map(([name]) => name),
    ),
  ].filter((part) => part !== '');
  return parts.length === 0 ? 'settings besides connectors changed' : parts.join('; ');
}

const mostNames = 10;

function countText(what: string, names: readonly string[]): string {
  if (names.length === 0) return '';
  const more = names.length > mostNames ? ` and ${names.length - mostNames} more` : '';
  return `${what}: ${names.slice(0, mostNames).join(', ')}${more}`;
}

/**
 * Digests that differ where two readings of a config differ, in secrets too: of everything, and of each connector. They
 * stay in memory: a short secret could be found by its digest.
 */
function settingsDigest(settings: LocalSettings) {
  // Connectors share definitions and sinks.
  const known = new Map<object, string>();
  const digest = (value: unknown): string => {
    if (typeof value !== 'object' || value === null) return `${typeof value} ${String(value)}`;
    const found = known.get(value);
    if (found !== undefined) return found;
    const text = createHash('sha256')
      .update(JSON.stringify(partsOf(value).map(digest)))
      .digest('base64');
    known.set(value, text);
    return text;
  };
  const connectors: ReadonlyMap<ConnectorName, string> = new Map(
    [...settings.connectors].map(([name, connector]) => [name, digest(connector)]),
  );
  return { whole: digest(settings), connectors };
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
