import * as z from 'zod';
import { isConnectorName } from '../core/names.ts';
import { Secret } from '../core/secret.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { Frozen } from '../definitions/frozen.ts';
import { strictObject } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { checkGlobs, wrong, checked, matching, orNull, secret, type Checked } from './texts.ts';

/** Kinds of notices that are sent to people. */
export const noticeKinds = [
  'failed',
  'incomplete',
  'withheld-deletes',
  'withheld-retention',
  'schema-change',
  'late',
  'purge-unfinished',
  'publication-failed',
  'config-refused',
  'recovered',
] as const;

/** Leaves the text out of messages: such an address is often the only secret of a receiver. */
function checkAddress(text: string): Checked {
  const url = !/[\s\\]/.test(text) && URL.canParse(text) ? new URL(text) : null;
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (!isHttp || url.username !== '' || url.password !== '' || url.hash !== '') {
    return wrong('expected an https address without a user and fragment (#)');
  }
  return { ok: true, value: url.href };
}

function checkServer(text: string): Checked {
  const url = !/[\s\\]/.test(text) && URL.canParse(text) ? new URL(text) : null;
  const isBare = url !== null && url.username === '' && url.password === '' && /^\/?$/.test(url.pathname);
  if (!isBare || !['smtps:', 'smtp:'].includes(url.protocol) || url.hostname === '' || /[?#]/.test(text)) {
    return wrong('expected smtps://host or smtp://host, with a port or without, and no more');
  }
  return { ok: true, value: `${url.protocol}//${url.host}` };
}

const mailAddress = matching(
  /^[^\s@<>,;:"\p{Cc}]{1,64}@[^\s@<>,;:"\p{Cc}]{1,255}$/u,
  'expected one address such as ops@example.com',
);

const address = checked(checkAddress)
  .transform((text) => new Secret(text))
  .meta(secret('https address. Best as ${file:path} or ${VARIABLE}: it may be all that a sender needs'));

const connectors = z.array(z.string().min(1)).min(1).optional().meta({
  description: 'Only about connectors that match one of these, such as news*; default: all',
});

const chosen = {
  connectors,
  kinds: z.array(z.enum(noticeKinds)).min(1).optional().meta({ description: 'Default: all' }),
};

const webhook = strictObject({
  type: z.literal('webhook'),
  url: address,
  format: z.enum(['json', 'slack']).default('json').meta({
    description: 'slack: a body that Slack, Mattermost and others with its incoming webhooks take',
  }),
  secret: orNull(
    matching(/^[\x21-\x7e]{16,512}$/, 'expected 16 to 512 visible ASCII characters without blanks').transform(
      (text) => new Secret(text),
    ),
  ).meta(secret('Signs each message. Best as ${file:path} or ${VARIABLE}')),
  ...chosen,
});

const email = strictObject({
  type: z.literal('email'),
  server: checked(checkServer).meta({
    description: 'smtps://host:465 with TLS from the start, or smtp://host:587 with STARTTLS',
  }),
  user: orNull(z.string().min(1)),
  password: orNull(
    z
      .string()
      .min(1)
      .transform((text) => new Secret(text)),
  ).meta(secret('Best as ${file:path} or ${VARIABLE}')),
  from: mailAddress,
  to: z.array(mailAddress).min(1).max(50),
  ...chosen,
});

const heartbeat = strictObject({ type: z.literal('heartbeat'), url: address, connectors });

export const notifyFile = z.discriminatedUnion('type', [webhook, email, heartbeat], {
  error: expectedType('webhook', 'email', 'heartbeat'),
});

type NotifyFile = z.output<typeof notifyFile>;

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
    checkGlobs(written.connectors ?? [], known.named, [...at, 'connectors'], note);
    checkPlace(written, known, (field, message) => note([...at, field], message));
    channels.set(name, buildChannel(name, written));
  }
  return channels;
}

function buildChannel(name: string, written: NotifyFile) {
  const { connectors = [] } = written;
  // A heartbeat only reports success.
  if (written.type === 'heartbeat') return { ...written, name, connectors, kinds: [] };
  return { ...written, name, connectors, kinds: written.kinds ?? [...noticeKinds] };
}

function checkPlace(
  channel: NotifyFile,
  { allowHosts }: Known,
  wrong: (field: string, message: string) => void,
): void {
  if (channel.type === 'email') {
    if ((channel.user === null) !== (channel.password === null)) {
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
