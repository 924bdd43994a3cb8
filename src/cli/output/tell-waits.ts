import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import type { Clock } from '../../core/clock.ts';
import type { SettingsWith } from '../../settings/settings.ts';
import { duration } from '../../telemetry/progress-text.ts';
import type { CommandContext } from '../command-context.ts';

/** Shorter ones are over before they are read. */
const leastMs = 500;

/**
 * The clock for a command that makes a few calls and shows no progress: a wait between two attempts is told on stderr,
 * or a service that is not there would look like a program that hangs. At such a clock only the client of an API or a service may wait.
 */
export function tellWaits({ clock, terminal }: Pick<CommandContext, 'clock' | 'terminal'>): Clock {
  return {
    now: () => clock.now(),
    sleep: (ms, signal) => {
      if (ms >= leastMs) terminal.note(`No usable answer yet; retrying in ${duration(ms)}.`);
      return clock.sleep(ms, signal);
    },
  };
}

/** An app for such a command; the caller disposes it. */
export async function openPatientApp(
  context: Pick<CommandContext, 'clock' | 'terminal'>,
  settings: SettingsWith<'access'>,
  command: string,
): Promise<App> {
  return await openApp({ settings, clock: tellWaits(context), command: `connector-sync ${command}` });
}
