import { systemClock, type Clock } from '../../../src/core/clock.ts';
import { startUi } from '../../../src/page/start-ui.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';
import { sendRaw, type Answer, type LoggedLine, type RawRequest } from '../monitor/served-monitor.ts';

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
  const served = await startUi({
    settings: loadSettings({ file: config, env }),
    program: 'connector-sync',
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
