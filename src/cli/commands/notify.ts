import { fromEverySink } from '../../app/find-run.ts';
import { usage } from '../../core/errors.ts';
import { firstNames } from '../../definitions/suggest-name.ts';
import { openNotifier } from '../../notify/open-notifier.ts';
import { shownPlace } from '../../settings/config-view.ts';
import type { LocalSettings, NotifySettings } from '../../settings/settings.ts';
import { counted, longAgo, printable } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';

const channels = ['[channel...]', 'names from the config (default: all)'] as const;

const test = command({
  description: 'Send a message through each channel.',
  argument: channels,
  help: `
It is sent at once, before messages that wait. Exit code 1 where one is not delivered.

Example:
  $ connector-sync notify test ops`,
  run: async (context, _flags, names): Promise<ExitCode> => {
    const { terminal, clock } = context;
    const settings = await context.settings();
    const chosen = chosenChannels(settings, names);
    await using notifier = await openNotifier({ settings, clock, note: (line) => terminal.note(line) });
    const results = await notifier.test(chosen);
    for (const { channel, error } of results) {
      terminal.printJson({ kind: 'notify-test', channel: channel.name, isDelivered: error === null, error });
      terminal.print(`${channel.name}: ${error === null ? 'delivered' : printable(error)}`);
    }
    return results.every(({ error }) => error === null) ? exitCodes.ok : exitCodes.failed;
  },
});

/** The number of messages that are read from each sink. */
const mostMessages = 10_000;
const mostGivenUp = 10;

const status = command({
  description: 'Show the channels, which messages wait for them, and which were given up.',
  run: async (context) => {
    const { terminal, clock } = context;
    const settings = await context.settings();
    const all = (
      await fromEverySink(settings, async (history, sink) =>
        (await history.outbox(mostMessages)).map((message) => ({ ...message, sink: sink.name })),
      )
    ).flat();
    for (const channel of chosenChannels(settings, [])) {
      const ofChannel = all.filter((message) => message.channel === channel.name);
      const waiting = ofChannel.filter(({ givenUpAt }) => givenUpAt === null);
      const givenUp = ofChannel.filter(({ givenUpAt }) => givenUpAt !== null);
      const { name, type } = channel;
      terminal.printJson({ channel: name, type, place: shownPlace(channel), waiting, givenUp });
      const [oldest] = waiting.toSorted((left, right) => (left.at < right.at ? -1 : 1));
      const lastError = oldest?.lastError ?? null;
      const error = lastError === null ? '' : `, ${printable(lastError)}`;
      const state =
        oldest === undefined
          ? type === 'heartbeat'
            ? 'called after each sync that went well'
            : 'nothing waits'
          : `${counted(waiting.length, 'message waits', 'messages wait')} since ${longAgo(oldest.at, clock.now())}${error}`;
      terminal.print(`${name} (${type}, ${shownPlace(channel)}): ${state}`);
      for (const { kind, connector, at, lastError } of givenUp.slice(-mostGivenUp)) {
        const about = connector === null ? '' : ` of ${connector}`;
        terminal.print(
          `  ! given up: ${kind}${about}, ${longAgo(at, clock.now())}: ${printable(lastError ?? 'not delivered')}`,
        );
      }
      if (givenUp.length > mostGivenUp) {
        terminal.print(`  ! and ${counted(givenUp.length - mostGivenUp, 'older one')}`);
      }
    }
  },
});

export const notify = command({ commands: { test, status } });

/** The named channels; without names all of the config. Throws USAGE for an unknown one, and where there is none. */
function chosenChannels(settings: LocalSettings, names: readonly string[]): readonly NotifySettings[] {
  const known = settings.notify;
  if (known.size === 0) throw usage(`Expected a channel below "notify:" in ${settings.file}, there is none.`);
  if (names.length === 0) return [...known.values()];
  return names.map((name) => {
    const channel = known.get(name);
    if (channel !== undefined) return channel;
    throw usage(`Unknown channel "${name}"; the config has ${firstNames([...known.keys()])}.`);
  });
}
