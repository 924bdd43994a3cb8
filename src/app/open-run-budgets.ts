import type { AppOptions } from './app.ts';
import type { Clock } from '../core/clock.ts';
import { hasCode } from '../core/errors.ts';
import type { SettingsWith } from '../settings/settings.ts';
import { defaultApiLimits } from '../source/api/api-limits.ts';

/** Rate and concurrency of each account, shared with every process that uses the same Redis. */
interface RunBudgets extends AsyncDisposable {
  readonly openBudget: NonNullable<AppOptions['openBudget']>;
}

interface RunBudgetsOptions {
  readonly settings: SettingsWith<'access' | 'redis'>;
  readonly clock: Clock;
  /** Hears each failure of Redis; calls continue without it meanwhile. There may be many. */
  readonly onError: (error: Error) => void;
  /** As for `openApp`. */
  readonly maxThrottleWaitMs?: number;
}

/** Throws QUEUE_UNAVAILABLE within two seconds where Redis does not answer. */
export async function openRunBudgets({
  settings,
  clock,
  onError,
  maxThrottleWaitMs = defaultApiLimits.maxThrottleWaitMs,
}: RunBudgetsOptions): Promise<RunBudgets> {
  // Loaded only here: commands that share nothing need no Redis client.
  const { openSharedBudgets } = await import('../jobs/budget/open-shared-budgets.ts');
  const budgets = await openSharedBudgets({ redis: settings.redis, onError, clock });
  return {
    openBudget: ({ requestsPerSecond, concurrency }, { baseUrl, connectorId }) =>
      budgets.open({
        account: `${baseUrl}\n${connectorId}`,
        requestsPerSecond,
        concurrency,
        maxWaitMs: maxThrottleWaitMs,
      }),
    [Symbol.asyncDispose]: () => budgets[Symbol.asyncDispose](),
  };
}

/**
 * Where the config names a Redis, rates are shared with workers and other terminals; null where it names none. One that
 * is away is told once, and this process keeps its own pace.
 */
export async function openConfiguredBudgets(
  settings: SettingsWith<'access' | 'redis'>,
  { note, clock }: { readonly note: (line: string) => void; readonly clock: Clock },
): Promise<RunBudgets | null> {
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
