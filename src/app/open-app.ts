import { hasCode } from '../core/errors.ts';
import { selectEntities } from '../engine/chosen-entities.ts';
import { openNotifier } from '../notify/open-notifier.ts';
import type { ConnectorSettings, ReadConnector, SettingsWith } from '../settings/settings.ts';
import { storedStatus } from '../sinks/registry.ts';
import { defaultApiLimits } from '../source/api/api-limits.ts';
import type { ConnectorOrigin } from '../source/source.ts';
import type { App, AppOptions, EntityGlobs } from './app.ts';

/**
 * Opens an app; the caller disposes it. Its modules are loaded here, so that an earlier failure is reported without
 * loading them.
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { settings, clock, sinkIdOf, noteTrouble = () => undefined } = options;
  const notifier = await openNotifier({ settings, clock, sinkIdOf, note: noteTrouble });
  const { wireApp } = await import('./wire-app.ts');
  return wireApp(options, notifier);
}

interface SharingAppOptions extends Omit<AppOptions, 'settings' | 'openBudget' | 'noteTrouble'> {
  readonly settings: SettingsWith<'access' | 'redis'>;
  /**
   * Called once if Redis cannot be reached: this process then keeps its own pace. Also called with problems that
   * prevent notifications.
   */
  readonly note: (line: string) => void;
}

/**
 * An app whose calls share the rates of their accounts with workers and other commands, where the config names a Redis.
 */
export async function openSharingApp({ note, ...given }: SharingAppOptions): Promise<App> {
  const options = { ...given, noteTrouble: note };
  const budgets = await openConfiguredBudgets({ ...options, note });
  if (budgets === null) return await openApp(options);
  const app = await openApp({ ...options, openBudget: budgets.openBudget });
  return {
    ...app,
    [Symbol.asyncDispose]: async () => {
      await app[Symbol.asyncDispose]();
      await budgets[Symbol.asyncDispose]();
    },
  };
}

/** Entities that a sync would read, and those that the last run reported. */
export async function planSync(connector: ConnectorSettings, globs: EntityGlobs) {
  const { entities, addedParents } = selectEntities(connector.definition, connector.entities, globs);
  const ended = (await storedStatus(connector))?.lastRun?.report?.entities ?? [];
  return { entities: [...entities.keys()], addedParents, ended };
}

interface RunBudgetsOptions extends Pick<SharingAppOptions, 'settings' | 'clock' | 'maxThrottleWaitMs'> {
  /** Called at each failure of Redis; calls continue without it meanwhile. There may be many. */
  readonly onError: (error: Error) => void;
}

/**
 * Rate and concurrency of each account, shared with every process that uses the same Redis. Throws QUEUE_UNAVAILABLE
 * within two seconds where Redis does not answer.
 */
export async function openRunBudgets({
  settings,
  clock,
  onError,
  maxThrottleWaitMs = defaultApiLimits.maxThrottleWaitMs,
}: RunBudgetsOptions) {
  // Loaded only here: commands that share nothing need no Redis client.
  const { openSharedBudgets } = await import('../jobs/shared-budgets.ts');
  const budgets = await openSharedBudgets({ redis: settings.redis, onError, clock });
  return {
    openBudget: ({ requestsPerSecond }: ReadConnector, { baseUrl, connectorId }: ConnectorOrigin) =>
      budgets.open({
        account: `${baseUrl}\n${connectorId}`,
        requestsPerSecond,
        maxWaitMs: maxThrottleWaitMs,
      }),
    [Symbol.asyncDispose]: () => budgets[Symbol.asyncDispose](),
  };
}

/**
 * Shares rates with workers and other terminals if the config names a Redis; null if it names none. If Redis cannot be
 * reached, that is reported once, and this process keeps its own pace.
 */
async function openConfiguredBudgets({ settings, note, clock }: SharingAppOptions) {
  if (!settings.redis.isConfigured) return null;
  let isTold = false;
  const tell = (error: Error): void => {
    if (!isTold) note(`Rate limits are not shared with other processes: ${error.message}`);
    isTold = true;
  };
  try {
    return await openRunBudgets({ settings, clock, onError: tell });
  } catch (error) {
    if (!hasCode(error, 'QUEUE_UNAVAILABLE')) throw error;
    tell(error);
    return null;
  }
}
