import { connectorsHeld, copyConnector } from '../app/copy-connector.ts';
import { ordinaryPublication, publishTarget } from '../app/publish-target.ts';
import { systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { openNotifier } from '../notify/open-notifier.ts';
import type { PublishEnd } from '../publish/publication.ts';
import { chosenConnectors, sinkNamed, chosenTargets } from '../settings/choices.ts';
import { checkTargets, withParts } from '../settings/load-settings.ts';
import { settingsIn } from './open-app.ts';
import type {
  App,
  CheckOptions,
  Checks,
  Copied,
  CopyOptions,
  Publication,
  PublishOptions,
} from './shapes.ts';

/**
 * Publishes what is stored and not published yet into targets of the config, one after another, each as
 * `connector-sync publish` does. A target that fails does not keep the others from theirs: its result has an `error`.
 * Asks no API. Rejects with `SyncError` USAGE for a name that the config does not have, and with the reason of `signal`
 * once that is aborted: the publication at hand is not made.
 */
export async function publish(app: App, options: PublishOptions = {}): Promise<readonly Publication[]> {
  const settings = settingsIn(app);
  const { signal = new AbortController().signal, newGeneration = false } = options;
  const asked = { ...ordinaryPublication, isNewGenerationAsked: newGeneration };
  await using notifier = await openNotifier({ settings, clock: systemClock, note: () => undefined });
  const results: Publication[] = [];
  for (const target of chosenTargets(settings, options.targets ?? [])) {
    const { name } = target;
    try {
      checkTargets(settings, [target]);
      const end = await publishTarget(target, {
        ...asked,
        notifier,
        clock: systemClock,
        signal,
        onProgress: ({ connector, entity, rows }) =>
          options.onProgress?.({ target: name, connector, entity, rows }),
      });
      results.push(publicationOf(name, end));
    } catch (error) {
      signal.throwIfAborted();
      const nothing = { publication: null, createdAt: null, upserts: 0, deletes: 0 };
      results.push({ target: name, result: 'failed', ...nothing, error: failureOf(error) });
    }
  }
  return results;
}

function publicationOf(target: string, end: PublishEnd): Publication {
  const rows = { upserts: 0, deletes: 0 };
  if (end.kind === 'nothing-stored') {
    return { target, result: end.kind, publication: null, createdAt: null, ...rows, error: null };
  }
  const { manifest } = end.kind === 'published' ? end.published : end.newest;
  if (end.kind === 'published') {
    for (const { upserts, deletes } of manifest.entities) {
      rows.upserts += upserts;
      rows.deletes += deletes;
    }
  }
  const { publication, createdAt } = manifest;
  return { target, result: end.kind, publication, createdAt, ...rows, error: null };
}

/**
 * Copies connectors with their whole state from one sink of the config into another, as `connector-sync copy` does:
 * afterwards the config has to name the other one. A connector that fails does not keep the others from theirs: its
 * result has an `error`. Rejects with `SyncError` USAGE for a name that the config does not have and where there is
 * nothing to copy, and with the reason of `signal` once that is aborted: the next copy resumes.
 */
export async function copy(app: App, options: CopyOptions): Promise<readonly Copied[]> {
  const settings = settingsIn(app);
  const from = sinkNamed(settings, 'from', options.from);
  const to = sinkNamed(settings, 'to', options.to);
  const { connectors: names = [], signal = new AbortController().signal } = options;
  const connectors =
    names.length === 0 ? await connectorsHeld(settings, from) : chosenConnectors(settings, names);
  const copies: Copied[] = [];
  for (const { name: connector } of connectors) {
    try {
      const { state, rows } = await copyConnector({
        connector,
        from,
        to,
        clock: systemClock,
        signal,
        onProgress: (progress) =>
          options.onProgress?.({ connector, rows: progress.rows, allRows: progress.allRows }),
      });
      copies.push({ connector, state: state === 'begun' ? 'copied' : state, rows, error: null });
    } catch (error) {
      signal.throwIfAborted();
      copies.push({ connector, state: 'failed', rows: 0, error: failureOf(error) });
    }
  }
  return copies;
}

/**
 * Checks config, definitions, credentials, connectors, sinks, targets and Redis, as `connector-sync check` does. What
 * is wrong is in the result. Rejects with `SyncError` CONFIG_INVALID where credentials are missing.
 */
export async function check(app: App, options: CheckOptions = {}): Promise<Checks> {
  const settings = withParts(settingsIn(app), 'access', 'redis');
  // Loaded only here: most programs check nothing.
  const { runChecks } = await import('../cli/commands/check/run-checks.ts');
  const nothing = (): void => undefined;
  const terminal = { addLine: nothing, note: nothing, redraw: nothing, style: null };
  const { signal = new AbortController().signal, deep = false } = options;
  const context = { terminal, signal, clock: systemClock, program: 'connector-sync' };
  const results = await runChecks(context, settings, deep, nothing);
  return {
    ok: results.every(({ state }) => state !== 'failed'),
    checks: results.map(({ what, state, detail, code }) =>
      code === undefined ? { what, state, detail } : { what, state, detail, code },
    ),
  };
}

/** What is no failure of the work is a fault of the program, and is thrown. */
function failureOf(error: unknown): NonNullable<Copied['error']> {
  if (!(error instanceof SyncError)) throw error;
  return { code: error.code, message: error.message };
}
