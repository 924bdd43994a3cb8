import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Clock, instant, slept } from '../core/clock.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { Log } from '../telemetry/log.ts';

interface ReloadOutcome {
  readonly outcome: 'applied' | 'refused';
  /** The connectors that were added and removed, or why the config was refused. */
  readonly text: string;
}

interface ReloadsOptions<Config extends { readonly settings: LocalSettings }> {
  readonly first: Config;
  /** Awaited before each read: waiting after the read could put an outdated config into force. */
  readonly makeRoom?: () => Promise<void>;
  /** Reads the config again. Rejects where it cannot be used. */
  readonly read: () => Promise<Config>;
  /** Puts the config into force. If it rejects, the previous config stays in force. */
  readonly apply: (next: Config) => Promise<void>;
  /** Called after each reload. */
  readonly onReload?: (done: ReloadOutcome) => void;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when files are no longer to be followed. */
  readonly signal: AbortSignal;
}

/** One look costs the times of some files. */
const lookEveryMs = 2_000;
/**
 * A config without mistakes may be refused for a temporary reason, such as an unreachable Redis: it is retried after
 * this time.
 */
const againAfterMs = 60_000;

/**
 * The config of a process that reads it again while it works. A config that cannot be used changes nothing: the one
 * before stays in force, and the log and `problem` say so.
 */
export function openReloads<Config extends { readonly settings: LocalSettings }>({
  first,
  makeRoom = () => Promise.resolve(),
  read,
  apply,
  onReload = () => undefined,
  log,
  clock,
  signal,
}: ReloadsOptions<Config>) {
  let inForce = { settings: first.settings, since: instant(clock.now()) };
  let problem: string | null = null;
  let againMs = Infinity;
  /** The files of the newest readable config, and their state before they were read. */
  let seen = seenAt(first.settings.places);

  const readAgain = async (): Promise<ReloadOutcome> => {
    let isReadable = false;
    try {
      await makeRoom();
      // Taken before the read, so that a change during a long one is found later.
      seen = seenAt(seen.places);
      const next = await read();
      if (next.settings.places.join('\n') !== seen.places.join('\n')) seen = seenAt(next.settings.places);
      isReadable = true;
      await apply(next);
      const text = changesText(inForce.settings, next.settings);
      inForce = { settings: next.settings, since: instant(clock.now()) };
      [problem, againMs] = [null, Infinity];
      return { outcome: 'applied', text };
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      problem = `The config was read again and cannot be used, so the one of ${inForce.since} stays in force. ${text}`;
      againMs = isReadable ? clock.now() + againAfterMs : Infinity;
      if (!signal.aborted) {
        log.error(
          { err: error },
          'the config was read again and cannot be used: the one before stays in force',
        );
      }
      return { outcome: 'refused', text };
    }
  };
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ReloadOutcome> | null = null;
  const reloadNow = async (): Promise<ReloadOutcome> => {
    waiting = null;
    const reading = readAgain();
    running = reading;
    const done = await reading;
    onReload(done);
    return done;
  };
  /** A request that comes while another waits for its turn shares that one. Never rejects. */
  const reload = (): Promise<ReloadOutcome> => (waiting ??= running.then(reloadNow));
  return {
    reload,
    /**
     * Runs until the signal is aborted. Retries a config without mistakes that was refused, while its files stay the
     * same; with `watch: true` it also reloads when they have changed.
     */
    problem: (): string | null => problem,
    settings: (): Config['settings'] => inForce.settings,
    /**
     * Until the signal: tries a config without mistakes again that was refused, while its files stay the same; with
     * `watch: true` it also reloads when they have changed.
     */
    followFiles: async (): Promise<void> => {
      let before = seen.state;
      while (await slept(clock, lookEveryMs, signal)) {
        const { watch } = inForce.settings;
        if (!watch && againMs === Infinity) continue;
        const now = seenAt(seen.places).state;
        // An editor or a deploy writes several files: wait until they are still.
        const isStill = now === before;
        before = now;
        const isDue = now === seen.state ? clock.now() >= againMs : watch;
        if (isStill && isDue) await reload();
      }
    },
  };
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

/** The connectors that only one of two configs has, for people. */
function changesText({ connectors: before }: LocalSettings, { connectors: now }: LocalSettings): string {
  const added = [...now.keys()].filter((name) => !before.has(name));
  const removed = [...before.keys()].filter((name) => !now.has(name));
  return `${now.size} connectors${namesText('added', added)}${namesText('removed', removed)}`;
}

function namesText(what: string, names: readonly string[]): string {
  return names.length === 0 ? '' : `; ${what}: ${firstNames(names, 10)}`;
}
