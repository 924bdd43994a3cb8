import { tokensOf } from '../../monitor/page-access.ts';
import type { MonitorContent } from '../../monitor/start-monitor.ts';
import { openReloads } from '../../app/open-reloads.ts';
import { type ListenAddress, parseListenAddress } from '../../monitor/listen-address.ts';
import type { LocalSettings, SettingsWith } from '../../settings/settings.ts';
import { printable } from '../../telemetry/format.ts';
import { aborted, command, type CommandContext } from '../command.ts';
import { stderrLog } from '../environment.ts';
import { registerSecrets } from '../load-config.ts';

export const ui = command({
  options: {
    '--http <[host]:port>': { text: 'where to serve; a bare port binds to loopback', default: '9401' },
  },
  help: `
Shows what the sinks of the config hold, in a browser: what is fresh, what ran, what failed, what waits for a person. Needs
neither the API nor Redis for that. "worker --http" serves the same pages.

Where the config has http.token or http.tokens, the pages ask for one, and who may act can pause, cancel, undo, and have
a worker run and publish. Without one they only read, and stay closed where other machines can reach them.

It reads the config again on SIGHUP, and with "watch: true" in the config whenever a file of it changes. One with mistakes
is refused: every page says so, and the one before stays in force.

Examples:
  $ connector-sync ui
  $ connector-sync ui --http 0        on any free port
  $ connector-sync ui --http :9401    for other machines too; needs http.token`,
  enter: () => ({ isWatching: true }),
  run: async (context, flags) => {
    await showPages(context, () => context.settings('http'), parseListenAddress(flags.http));
  },
});

/**
 * Serves the pages of a config until the command is stopped. They follow the config that `read` reads, if its file may
 * change (`isFollowing`). Throws as `openHttpServer` does.
 */
export async function showPages(
  context: CommandContext,
  read: () => Promise<SettingsWith<'http'>>,
  listen: ListenAddress,
  isFollowing = true,
): Promise<void> {
  const { terminal, clock, program, signal } = context;
  const settings = await read();
  const log = await stderrLog(context, 'warn');
  // Loaded on demand: a server's code would slow the start of every other command.
  const { startMonitor } = await import('../../monitor/start-monitor.ts');
  const { openFollowedActs, servedPages } = await import('../../page/page-routes.ts');
  const deeds = openFollowedActs();
  const editing = {
    env: context.env,
    hide: (changed: LocalSettings) => registerSecrets(changed, context.scrubber),
    reload: async () => await reloads.reload(),
    isWorker: false,
  };
  const content = (shown: SettingsWith<'http'>): MonitorContent => ({
    pages: servedPages({ settings: shown, program, clock, deeds, ...(isFollowing ? { editing } : {}) }),
    hosts: shown.http.hosts,
    tokens: tokensOf(shown.http),
  });
  const problem = (): string | null => reloads.problem();
  await using served = await startMonitor({ ...content(settings), clock, listen, log, problem });
  const reloads = openReloads({
    first: { settings },
    read: async () => ({ settings: await read() }),
    apply: async (next) => await served.show(content(next.settings)),
    log,
    clock,
    signal,
  });
  terminal.printJson({ url: served.url });
  terminal.print(`${printable(settings.file)}: ${served.url}`);
  terminal.note('Ctrl-C stops.');
  // A closed terminal then ends the command, like any other.
  if (!isFollowing) return await aborted(signal);
  const onHangUp = (): void => void reloads.reload();
  process.on('SIGHUP', onHangUp);
  try {
    await Promise.all([aborted(signal), reloads.followFiles()]);
  } finally {
    process.off('SIGHUP', onHangUp);
  }
}
