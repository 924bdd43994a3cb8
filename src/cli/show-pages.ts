import { openReloads } from '../app/open-reloads.ts';
import type { ListenAddress } from '../monitor/listen-address.ts';
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
  const { startUi } = await import('../page/start-ui.ts');
  const problem = (): string | null => reloads.problem();
  await using served = await startUi({ settings, program, clock, listen, log, problem });
  const reloads = openReloads({
    first: { settings },
    read: async () => ({ settings: (await read?.()) ?? settings }),
    apply: async (next) => await served.show(next.settings),
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
