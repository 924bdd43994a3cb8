import { hostname } from 'node:os';
import { instant, slept, type Clock, otherTurn } from '../core/clock.ts';
import { isPutOff, SyncError } from '../core/errors.ts';
import { usage } from '../core/usage-error.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings, NotifySettings, SinkSettings } from '../settings/settings.ts';
import type { FoundState } from '../sinks/notices.ts';
import { conditionsOf, configOf, publicationsOf } from './conditions.ts';
import type { Notifier, NotifierOptions } from './notifier.ts';
import { hearsOf, messageOf, testNotice } from './notice.ts';
import { openChannels, type Channels } from './open-channels.ts';
import { openOutboxes, type Outboxes } from './open-outboxes.ts';

/** How long a process that ends sends what is waiting; the rest goes with the next one that opens the sink. */
const mostEndMs = 10_000;

/** Connectors: other work gets a turn after them, and writers of the sink do not wait for all. */
const comparedAtOnce = 500;

/** The notifier of a config that has channels; `openNotifier` loads it. */
export function tellingNotifier(options: NotifierOptions): Notifier {
  const { settings, clock } = options;
  const stop = new AbortController();
  const channels = openChannels(options, stop.signal);
  const outboxes = openOutboxes({ ...options, channels, signal: stop.signal });
  const inBackground = openBackground(channels, stop.signal);

  const updateAll = async (sink: SinkSettings, connectors: readonly ConnectorSettings[]): Promise<void> =>
    await outboxes.update(sink, connectors, (state) =>
      connectors.map((connector) => ({ of: connector.name, found: conditionsOf(connector, state) })),
    );
  const look = async (connectors: readonly ConnectorSettings[]): Promise<void> => {
    for (const sink of sinksOf(connectors)) {
      const ofSink = connectors.filter((connector) => connector.sink.name === sink.name);
      await inBackground(`sink ${sink.name}`, async () => {
        for (let first = 0; first < ofSink.length && !stop.signal.aborted; first += comparedAtOnce) {
          await updateAll(sink, ofSink.slice(first, first + comparedAtOnce));
          await otherTurn();
        }
      });
    }
  };
  const finish = async (): Promise<void> => {
    await inBackground.all();
    await look([...settings.connectors.values()].filter(({ sink }) => outboxes.hasUsed(sink)));
    await outboxes.end(clock.now() + mostEndMs);
    await inBackground.all();
  };
  return {
    runEnded: async ({ connector, kind, error, isGood }) => {
      // A backfill that cannot begin is for who asked for it: it makes nothing older.
      if (isPutOff(error) || (kind === 'backfill' && error !== null)) return;
      if (isGood && kind === 'sync') {
        void inBackground('a heartbeat', async () => await channels.beat(connector.name));
      }
      await inBackground(connector.name, async () => await updateAll(connector.sink, [connector]));
    },
    publicationEnded: async (target, error) => {
      const sink = target.connectors[0]?.sink;
      if (sink === undefined || isPutOff(error)) return;
      const found = (state: FoundState) => publicationsOf(state, { target: target.name, error });
      await inBackground(target.name, async () => {
        await outboxes.update(sink, [], (state) => [{ of: '', found: found(state) }]);
      });
    },
    configRead: async (read) => {
      const [first] = settings.connectors.values();
      if (first === undefined) return;
      await inBackground('the config', async () => {
        await outboxes.update(first.sink, [], (state) => [
          { of: '', found: configOf(state, read, hostname()) },
        ]);
      });
    },
    look,
    test: async (chosen) => {
      const ends = clock.now() + mostEndMs;
      const sent = await Promise.all(
        chosen.map(async (channel) => await beginTest({ settings, clock, channels, outboxes }, channel)),
      );
      const inTime = new AbortController();
      await Promise.race([outboxes.end(ends), slept(clock, mostEndMs, inTime.signal)]);
      inTime.abort();
      return await Promise.all(sent.map(async ({ channel, result }) => ({ channel, error: await result() })));
    },
    [Symbol.asyncDispose]: async () => {
      const inTime = new AbortController();
      await Promise.race([finish(), slept(clock, mostEndMs, inTime.signal)]);
      inTime.abort();
      stop.abort(new SyncError('the notifier was closed', { code: 'INTERRUPTED', recovery: 'retry' }));
      await inBackground.all();
      await outboxes[Symbol.asyncDispose]();
      await channels[Symbol.asyncDispose]();
    },
  };
}

interface Testing {
  readonly channels: Channels;
  readonly outboxes: Outboxes;
  readonly settings: LocalSettings;
  readonly clock: Clock;
}

/** Begins to send a message through a channel. `result`: what keeps it from its receiver, asked when time is over. */
async function beginTest(
  { settings, clock, channels, outboxes }: Testing,
  channel: NotifySettings,
): Promise<{ readonly channel: NotifySettings; readonly result: () => Promise<string | null> }> {
  if (channel.type === 'heartbeat') {
    const sent = await channels.call(channel.url);
    return { channel, result: async () => Promise.resolve(sent.kind === 'delivered' ? null : sent.error) };
  }
  const connector = [...settings.connectors.values()].find(({ name }) => hearsOf(channel, name));
  if (connector === undefined) throw usage('Expected at least one connector in the config, there is none.');
  const { sink } = connector;
  const message = messageOf(channel, testNotice(channel, sink.name, instant(clock.now())));
  await outboxes.put(sink, message);
  return {
    channel,
    result: async () => {
      const left = await outboxes.left(sink, message.notice);
      if (left === null) return null;
      return left.lastError ?? 'it waits behind earlier messages, or another process is about to send it';
    },
  };
}

/** Work that is not over: who closes waits for it. What fails is noted once until it goes well. */
function openBackground({ note }: Pick<Channels, 'note'>, stopped: AbortSignal) {
  const pending = new Set<Promise<void>>();
  const noted = new Map<string, string>();
  const inBackground = (about: string, work: () => Promise<void>): Promise<void> => {
    const done = work()
      .then(() => void noted.delete(about))
      .catch((error: unknown) => {
        const text = error instanceof Error ? error.message : String(error);
        if (stopped.aborted || noted.get(about) === text) return;
        noted.set(about, text);
        note(`Notifications about ${about} wait: ${text}`);
      })
      .finally(() => pending.delete(done));
    pending.add(done);
    return done;
  };
  return Object.assign(inBackground, {
    all: async (): Promise<void> => void (await Promise.all(pending)),
  });
}
