import * as z from 'zod';
import { Secret } from '../core/secret.ts';
import { strictObject } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { wrong, type Checked } from './check-urls.ts';
import { checked, matching, orNull, secret } from './texts.ts';

/** What people are notified of. */
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

/** Without the text: such an address is often the only secret that a receiver asks for. */
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

const line = matching(
  /^[^\p{Cc}\p{Zl}\p{Zp}]{1,1024}$/u,
  'expected 1 to 1024 characters without line ends and control characters',
);
const mailAddress = matching(
  /^[^\s@<>,;:"\p{Cc}]{1,64}@[^\s@<>,;:"\p{Cc}]{1,255}$/u,
  'expected one address such as ops@example.com',
  'ops@example.com',
);

const address = checked('https://example.com/', checkAddress)
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
    matching(
      /^[\x21-\x7e]{16,512}$/,
      'expected 16 to 512 visible ASCII characters without blanks',
      'x'.repeat(16),
    ).transform((text) => new Secret(text)),
  ).meta(secret('Signs each message. Best as ${file:path} or ${VARIABLE}')),
  ...chosen,
});

const email = strictObject({
  type: z.literal('email'),
  server: checked('smtps://mail.example.com', checkServer).meta({
    description: 'smtps://host:465 with TLS from the start, or smtp://host:587 with STARTTLS',
  }),
  user: orNull(line),
  password: orNull(line.transform((text) => new Secret(text))).meta(
    secret('Best as ${file:path} or ${VARIABLE}'),
  ),
  from: mailAddress,
  to: z.array(mailAddress).min(1).max(50),
  ...chosen,
});

const heartbeat = strictObject({ type: z.literal('heartbeat'), url: address, connectors });

export const notifyFile = z.discriminatedUnion('type', [webhook, email, heartbeat], {
  error: expectedType('webhook', 'email', 'heartbeat'),
});

export type NotifyFile = z.output<typeof notifyFile>;
