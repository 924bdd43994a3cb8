import { openReloads } from '../app/open-reloads.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
import { tokensOf } from '../monitor/page-access.ts';
import type { MonitorContent } from '../monitor/start-monitor.ts';
import type { SettingsWith } from '../settings/settings.ts';
import { printable } from '../telemetry/format.ts';
import type { CommandContext } from './command.ts';
import { stderrLog } from './environment.ts';
import { aborted } from './watch-interrupts.ts';

/**
 * Serves the pages of a config until the command is stopped; with `read`, which reads it again, they follow it. Throws
 * as `openHttpServer` does.
 */
export async function showPages(
  context: CommandContext,
  settings: SettingsWith<'http'>,
  listen: ListenAddress,
  read?: () => Promise<SettingsWith<'http'>>,
): Promise<void> {
  const { terminal, clock, program, signal } = context;
  const log = await stderrLog(context, 'warn');
  // Loaded only here: a server's code would slow the start of every other command.
  const { startMonitor } = await import('../monitor/start-monitor.ts');
  const { servedPages } = await import('../page/page-routes.ts');
  const content = (shown: SettingsWith<'http'>): MonitorContent => ({
    pages: servedPages({ settings: shown, program, clock }),
    hosts: shown.http.hosts,
    tokens: tokensOf(shown.http),
  });
  const problem = (): string | null => reloads.problem();
  await using served = await startMonitor({ ...content(settings), clock, listen, log, problem });
  const reloads = openReloads({
    first: { settings },
    read: async () => ({ settings: (await read?.()) ?? settings }),
    apply: async (next) => await served.show(content(next.settings)),
    log,
    clock,
    signal,
  });
  terminal.printJson({ url: served.url });
  terminal.print(`${printable(settings.file)}: ${served.url}`);
  terminal.note('Ctrl-C stops.');
  if (read === undefined) return await aborted(signal);
  const onHangUp = (): void => void reloads.reload();
  process.on('SIGHUP', onHangUp);
  try {
    await Promise.all([aborted(signal), reloads.followFiles()]);
  } finally {
    process.off('SIGHUP', onHangUp);
  }
}
