import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { tokensOf } from '../../../src/monitor/page-access.ts';
import { startMonitor } from '../../../src/monitor/start-monitor.ts';
import { servedPages } from '../../../src/page/page-routes.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';
import { sendRaw, type Answer, type LoggedLine, type RawRequest } from '../monitor/served-monitor.ts';
import { startScheduledRuns } from '../../../src/app/start-scheduled-runs.ts';
import { openLog } from '../../../src/telemetry/log.ts';

interface ServedUiOptions {
  readonly config: string;
  readonly clock?: Clock;
  readonly host?: string | null;
  readonly env?: Readonly<Record<string, string>>;
}

/** The pages of a config on a free port. */
export async function serveUi({
  config,
  clock = systemClock,
  host = '127.0.0.1',
  env = {},
}: ServedUiOptions) {
  const logged: LoggedLine[] = [];
  const line =
    (level: LoggedLine['level']) =>
    (facts: object, message: string): void =>
      void logged.push({ level, facts, message });
  const settings = loadSettings({ file: config, env });
  const served = await startMonitor({
    pages: servedPages({ settings, program: 'connector-sync', clock }),
    hosts: settings.http.hosts,
    tokens: tokensOf(settings.http),
    clock,
    listen: { host, port: 0 },
    log: { info: line('info'), warn: line('warn'), error: line('error') },
  });
  return {
    url: served.url,
    logged,
    get: (path: string, request?: RawRequest): Promise<Answer> => sendRaw(served.url, path, request),
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  };
}

/** So much later than it is. */
export function clockAhead(ms: number): Clock {
  return { ...systemClock, now: () => systemClock.now() + ms };
}

/** A worker in this process for the connectors of these names, and its pages on a free port. */
export async function serveWorkerPages(config: string, names: readonly string[]) {
  const settings = loadSettings({ file: config, env: {} });
  const runs = await startScheduledRuns({
    settings,
    log: await openLog({ level: 'fatal', write: () => undefined }),
    clock: systemClock,
    command: 'a test',
    serves: (name) => names.includes(name),
    listen: { host: '127.0.0.1', port: 0 },
    pages: servedPages({ settings, program: 'connector-sync', clock: systemClock }),
  });
  const url = runs.url ?? '';
  return {
    url,
    get: (path: string, request?: RawRequest): Promise<Answer> => sendRaw(url, path, request),
    [Symbol.asyncDispose]: async () => await runs.stop(),
  };
}
