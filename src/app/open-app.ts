import type { Clock } from '../core/clock.ts';
import { estimateCalls, type CallEstimate } from '../engine/estimate-calls.ts';
import { selectEntities, type Selection } from '../engine/chosen-entities.ts';
import type { ConnectorSettings, SettingsWith } from '../settings/settings.ts';
import { storedStatus } from '../sinks/registry.ts';
import type { App, AppOptions, EntityGlobs } from './app.ts';
import { openConfiguredBudgets } from './open-run-budgets.ts';

/**
 * Opens an app; the caller disposes it. Its modules are loaded here, so that what fails before this waits for none of
 * them.
 */
export async function openApp(options: AppOptions): Promise<App> {
  const { wireApp } = await import('./wire-app.ts');
  return wireApp(options);
}

interface SharingAppOptions extends Omit<AppOptions, 'settings' | 'openBudget'> {
  readonly settings: SettingsWith<'access' | 'redis'>;
  readonly clock: Clock;
  /** Told once where Redis cannot be reached: this process then keeps its own pace. */
  readonly note: (line: string) => void;
}

/**
 * An app whose calls share the rates of their accounts with workers and other commands, where the config names a Redis.
 */
export async function openSharingApp({ note, ...options }: SharingAppOptions): Promise<App> {
  const budgets = await openConfiguredBudgets(options.settings, { clock: options.clock, note });
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

interface PlannedSync extends Selection {
  readonly estimates: readonly CallEstimate[];
}

/** What a sync would read, without a call; `isFull`: one that is asked to read everything. */
export async function planSync(
  connector: ConnectorSettings,
  globs: EntityGlobs,
  isFull: boolean,
): Promise<PlannedSync> {
  const { definition } = connector;
  const selection = selectEntities(definition, connector.entities, globs);
  const status = await storedStatus(connector);
  const estimates = estimateCalls({ definition, entities: selection.entities, status, isFull });
  return { ...selection, estimates };
}
