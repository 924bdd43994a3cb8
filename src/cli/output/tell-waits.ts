import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { SettingsWith } from '../../settings/settings.ts';
import { retryText } from '../../telemetry/progress-text.ts';
import type { CommandContext } from '../command-context.ts';
import { duration } from '../../telemetry/format.ts';

/** Shorter ones are over before they are read. */
const leastMs = 500;

/**
 * An app for a command that makes a few calls and shows no progress: each wait for another attempt is shown on stderr,
 * or a service that is not there would look like a program that hangs. The caller disposes it.
 */
export async function openPatientApp(
  { clock, terminal }: Pick<CommandContext, 'clock' | 'terminal'>,
  settings: SettingsWith<'access'>,
  command: string,
): Promise<App> {
  const onWait: OnRunEvent = (event) => {
    if ((event.kind !== 'call-retried' && event.kind !== 'throttled') || event.waitMs < leastMs) return;
    if (event.kind === 'throttled') {
      terminal.note(`rate-limit wait, next call in ${duration(event.waitMs)}`);
    } else if (event.code !== 'THROTTLED') {
      const now = clock.now();
      terminal.note(retryText({ ...event, nextAtMs: now + event.waitMs }, now));
    }
  };
  return await openApp({ settings, clock, command: `connector-sync ${command}`, onWait });
}
