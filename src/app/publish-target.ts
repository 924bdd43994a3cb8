import { hostname } from 'node:os';
import type { OpenTarget } from '../publish/open-target.ts';
import type { PrunedTarget, Target, TargetCheck } from '../publish/target.ts';
import type { TargetState } from '../publish/publish-once.ts';
import type { PublishEnd, PublishRequest } from '../publish/publish-request.ts';
import type { PublishSettings } from '../settings/settings.ts';
import { programVersion } from './program-version.ts';

export type AskedPublication = Pick<PublishRequest, 'isSnapshotAsked' | 'isNewGenerationAsked'>;

/** What a publication is where nobody asked for more. */
export const ordinaryPublication: AskedPublication = { isSnapshotAsked: false, isNewGenerationAsked: false };

/**
 * One publication of what a target's connectors have stored, whatever asked for it. Rejects as `openTarget` and
 * `publishOnce` do.
 */
export async function publishTarget(
  settings: PublishSettings,
  request: AskedPublication & Pick<PublishRequest, 'clock' | 'signal' | 'onProgress'>,
): Promise<PublishEnd> {
  // Loaded only here: a sync that publishes nothing needs none of it.
  const { publishOnce } = await import('../publish/publish-once.ts');
  await using target = await open(settings, request);
  const by = { program: `connector-sync ${programVersion()}`, host: hostname() };
  return await publishOnce(target, { ...request, settings, by });
}

/** Changes nothing. Rejects as `publishTarget` does where a publication would be refused. */
export async function targetStatus(settings: PublishSettings, how: OpenTarget): Promise<TargetState> {
  const { readTargetState } = await import('../publish/publish-once.ts');
  await using target = await open(settings, how);
  return await readTargetState(target, { settings, clock: how.clock });
}

/** Reads back what was published. Rejects with the signal's reason. */
export async function checkTarget(settings: PublishSettings, how: OpenTarget): Promise<TargetCheck> {
  await using target = await open(settings, how);
  return await target.check(how.signal);
}

/** Rejects where no publication could be made; makes none. */
export async function probeTarget(settings: PublishSettings, how: OpenTarget): Promise<void> {
  await using target = await open(settings, how);
  await target.probe();
}

/** Removes what `keep` of the settings does not keep, and what publications left that were killed. */
export async function pruneTarget(
  settings: PublishSettings,
  { isDryRun, ...how }: OpenTarget & { readonly isDryRun: boolean },
): Promise<PrunedTarget> {
  await using target = await open(settings, how);
  const keepFromMs = settings.keepMs === null ? null : how.clock.now() - settings.keepMs;
  return await target.prune(keepFromMs, isDryRun);
}

async function open(settings: PublishSettings, { clock, signal }: OpenTarget): Promise<Target> {
  const { openTarget } = await import('../publish/open-target.ts');
  return await openTarget(settings, { clock, signal });
}
