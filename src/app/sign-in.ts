import type { Clock } from '../core/clock.ts';
import { readKey } from '../core/secret.ts';
import { usage } from '../core/errors.ts';
import { isSharedSink } from '../settings/sink-settings.ts';
import type { ConnectorSettings, DirectAddress, LocalSettings } from '../settings/settings.ts';
import { openSignIn, type IssuedTokens, type SignIn } from '../sign-ins/sign-in-store.ts';
import { type Authorization, openAuthorization } from '../upstream/authorization.ts';
import { IdentityChangedError } from '../sinks/sink-errors.ts';
import { callFacts } from '../source/api/call-failure.ts';
import { classifyUpstream } from '../source/direct/open-direct-source.ts';
import { UpstreamFailure } from '../upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../upstream/upstream-transport.ts';
import { checkAddress } from './connector-address.ts';
import { checkWritable } from './reach-queues.ts';

/** The stored sign-in of a connector; null for one that needs none. The caller disposes it. */
export function signInAt({ signIn }: Pick<DirectAddress, 'signIn'>, clock: Clock): SignIn | null {
  if (signIn === null) return null;
  const { key, ...place } = signIn;
  return openSignIn({ ...place, key: key === null ? null : readKey(key.reveal()), clock });
}

interface LoginOptions {
  readonly settings: LocalSettings;
  readonly connector: ConnectorSettings;
  readonly clock: Clock;
}

/**
 * Has a person sign in: `ask` leads them through one of the flows, and the tokens are stored. Throws USAGE for a
 * connector that needs no person, and other failures as a run would report them.
 */
export async function signIn(
  options: LoginOptions,
  ask: (authorization: Authorization) => Promise<IssuedTokens>,
  signal: AbortSignal,
): Promise<void> {
  const { connector, clock } = options;
  await checkAddress(connector, { settings: { access: null } });
  await using opened = openFor(options);
  const { sink } = connector;
  // The sign-in is a table of such a sink, which is made first where there is none.
  if (isSharedSink(sink.type)) await checkWritable(sink, { clock, signal });
  await opened.stored.store(await explained(async () => await ask(opened.authorization)));
}

/** Stores the service's name of the account with the sign-in. */
export async function nameAccount({ connector, clock }: Omit<LoginOptions, 'settings'>, account: string) {
  await using stored = connector.address.kind === 'direct' ? signInAt(connector.address, clock) : null;
  await stored?.nameAccount(account);
}

/** Result for the tokens. `none`: there were none; `failed`: the service did not revoke them. */
export type SignedOut =
  { readonly kind: 'none' | 'revoked' | 'removed' } | { readonly kind: 'failed'; readonly why: string };

/** Deletes a sign-in, and revokes its tokens if the service supports it. */
export async function signOut(options: LoginOptions, signal: AbortSignal): Promise<SignedOut> {
  await using opened = openFor(options);
  const was = await opened.stored.remove();
  if (was === null) return { kind: 'none' };
  try {
    await checkAddress(options.connector, { settings: { access: null } });
    return { kind: (await opened.authorization.revoke(was.tokens, signal)) ? 'revoked' : 'removed' };
  } catch (error) {
    if (error instanceof IdentityChangedError) return { kind: 'failed', why: error.message };
    if (!(error instanceof UpstreamFailure)) throw error;
    return { kind: 'failed', why: error.text };
  }
}

function openFor({ settings, connector, clock }: LoginOptions) {
  const { name, definition, address } = connector;
  if (address.kind !== 'direct') {
    throw usage(`${name} is read through an API, which has its credentials: there is nothing to sign in to.`);
  }
  const transport = openUpstreamTransport({ allowHosts: settings.allowUpstreamHosts });
  const credentials = Object.fromEntries(
    [...address.credentials].map(([field, secret]) => [field, secret.reveal()]),
  );
  const authorization = openAuthorization({
    definition,
    credentials,
    connector: name,
    transport,
    clock,
  });
  const stored = signInAt(address, clock);
  if (stored === null) throw new TypeError(`${name} has no place for a sign-in`);
  return {
    authorization,
    stored,
    [Symbol.asyncDispose]: async () => {
      await stored[Symbol.asyncDispose]();
      await transport[Symbol.asyncDispose]();
    },
  };
}

async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error;
    throw classifyUpstream(error, callFacts('catalog', 'sign in')).error;
  }
}
