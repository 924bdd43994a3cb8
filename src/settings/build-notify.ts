import { isLikeGlob } from '../core/glob.ts';
import { isConnectorName } from '../core/names.ts';
import type { Frozen } from '../definitions/deep-freeze.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { noticeKinds, type NotifyFile } from './notify-file.ts';

interface Known {
  /** The connectors of the config. */
  readonly named: readonly string[];
  readonly allowHosts: readonly string[];
}

/** The channels by name. An address without TLS must be allowed by name: messages may not be for everyone. */
export function buildNotify(file: Readonly<Record<string, NotifyFile>>, known: Known, note: Note) {
  const channels = new Map<string, Frozen<ReturnType<typeof buildChannel>>>();
  for (const [name, written] of Object.entries(file)) {
    const at = ['notify', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    for (const [index, glob] of (written.connectors ?? []).entries()) {
      if (known.named.some((one) => isLikeGlob(one, glob))) continue;
      note(
        [...at, 'connectors', String(index)],
        `no connector matches ${JSON.stringify(glob)}; the config has ${firstNames(known.named)}`,
        ['connectors'],
      );
    }
    checkPlace(written, known, (field, message) => note([...at, field], message));
    channels.set(name, buildChannel(name, written));
  }
  return channels;
}

function buildChannel(name: string, written: NotifyFile) {
  const { connectors = [] } = written;
  // A heartbeat tells nothing but that something went well.
  if (written.type === 'heartbeat') return { ...written, name, connectors, kinds: [] };
  return { ...written, name, connectors, kinds: written.kinds ?? [...noticeKinds] };
}

function checkPlace(
  channel: NotifyFile,
  { allowHosts }: Known,
  wrong: (field: string, message: string) => void,
): void {
  if (channel.type === 'email') {
    const { user, password } = channel;
    if ((user === null) !== (password === null)) {
      wrong('user', 'expected both user and password, or neither');
    }
    return;
  }
  const text = channel.url.reveal();
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.protocol === 'https:') return;
  const port = url.port || '80';
  if (allowHosts.includes(url.hostname) || allowHosts.includes(`${url.hostname}:${port}`)) return;
  wrong('url', 'expected https; http needs the host in allowNotifyHosts');
}
