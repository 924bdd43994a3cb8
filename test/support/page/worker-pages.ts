import { startScheduledRuns } from '../../../src/app/start-scheduled-runs.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { servedPages } from '../../../src/page/page-routes.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';
import { openLog } from '../../../src/telemetry/log.ts';
import { sendRaw, type Answer, type RawRequest } from '../monitor/served-monitor.ts';

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
