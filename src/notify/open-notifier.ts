import { checkChannels } from '../settings/load-settings.ts';
import type { NotifierOptions, tellingNotifier } from './telling-notifier.ts';

export type Notifier = ReturnType<typeof tellingNotifier>;

/**
 * Disposing it looks once more at the sinks that it has used, and sends for up to ten seconds. Throws CONFIG_INVALID
 * where something of `notify` is missing here.
 */
export async function openNotifier(options: NotifierOptions): Promise<Notifier> {
  checkChannels(options.settings);
  if (options.settings.notify.size > 0) {
    // Loaded only here: most configs have no channel.
    return (await import('./telling-notifier.ts')).tellingNotifier(options);
  }
  const nothing = (): Promise<void> => Promise.resolve();
  return {
    runEnded: nothing,
    publicationEnded: nothing,
    configRead: nothing,
    look: nothing,
    test: () => Promise.resolve([]),
    [Symbol.asyncDispose]: nothing,
  };
}
