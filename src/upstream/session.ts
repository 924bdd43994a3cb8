import { createHash } from 'node:crypto';
import PQueue from 'p-queue';
import { systemClock, type Clock } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import { Secret } from '../core/secret.ts';
import type { Definition } from '../definitions/definition.ts';
import { orAborted } from '../http/or-aborted.ts';
import type { CallGate, CallLane } from './call-gate.ts';
import { readCredentials, unusable, type OpenCredentials } from './credentials.ts';
import { addressOf } from './address-of.ts';
import { EndedGrantError, requestTokens } from './request-tokens.ts';
import type { UpstreamTransport } from './upstream-transport.ts';

export interface UpstreamOptions {
  /** Of a connector type that says how its third party is called. */
  readonly definition: Definition;
  /** Opened for each call; nothing keeps what it resolves to. What it rejects with reaches the caller as it is. */
  readonly credentials: () => Promise<JsonObject>;
  /**
   * Stores the credentials with renewed tokens. They are used once this has resolved, so it must be durable then, and
   * `credentials` must give them from then on. Null: tokens are renewed only where the refresh token stays the same.
   */
  readonly saveCredentials?: ((changed: JsonObject) => Promise<void>) | null;
  /** The connector's id: calls with renewed tokens share its limits. */
  readonly connector: string;
  readonly gate: CallGate;
  readonly transport: UpstreamTransport;
  readonly clock?: Clock;
}

/** What one call needs to reach the account; to be forgotten with the call. */
export interface OpenedCall {
  readonly credentials: OpenCredentials;
  readonly lane: CallLane;
  readonly base: URL;
}

export type Session = ReturnType<typeof openSession>;

/**
 * The credentials of one connector: opened for each call, renewed where they can be. Throws `TypeError` for a
 * definition without `upstream`.
 */
export function openSession(options: UpstreamOptions) {
  const { definition, transport, gate, clock = systemClock, saveCredentials = null } = options;
  const { upstream } = definition;
  if (upstream === null) throw new TypeError(`the definition ${definition.name} has no upstream`);
  /** Renewed tokens where no place was given to save them, while this connector is open. */
  const unsaved = new Map<string, Secret>();
  const renewals = new PQueue();

  const read = async (): Promise<{ given: JsonObject; credentials: OpenCredentials }> => {
    const stored = await options.credentials();
    const given = {
      ...stored,
      ...Object.fromEntries([...unsaved].map(([field, secret]) => [field, secret.reveal()])),
    };
    return { given, credentials: readCredentials(definition, upstream, given, options.connector) };
  };

  const laneOf = ({ account }: OpenCredentials): CallLane => gate.lane(account, upstream.limits);

  /** A refresh token that has ended is not sent again, nor the access token that ended before it. */
  const throwIfRefused = (credentials: OpenCredentials): void => {
    const refusal = laneOf(credentials).refusalOf(hashOf(credentials));
    if (refusal !== null) throw refusal;
  };

  const factsOf = (credentials: OpenCredentials) => ({
    upstream,
    credentials,
    lane: laneOf(credentials),
    transport,
    clock,
  });

  const opened = async (credentials: OpenCredentials, signal: AbortSignal): Promise<OpenedCall> => {
    const facts = factsOf(credentials);
    const base = await addressOf(upstream.baseUrl, facts, signal);
    return { credentials, lane: facts.lane, base };
  };

  const save = async (given: JsonObject, changed: Readonly<Record<string, string>>): Promise<void> => {
    if (saveCredentials === null) {
      for (const [field, value] of Object.entries(changed)) unsaved.set(field, new Secret(value));
      return;
    }
    // The old refresh token may be void by now: only a stored new one keeps the connector.
    for (const pauseMs of [100, 1_000, 5_000, null]) {
      try {
        await saveCredentials({ ...given, ...changed });
        return;
      } catch (error) {
        if (pauseMs === null) throw error;
        await clock.sleep(pauseMs);
      }
    }
  };

  /** Runs alone for the account, and is not aborted: a new refresh token that nothing stores is lost for good. */
  const renewAlone = async (refusedToken: string | undefined): Promise<OpenCredentials | null> => {
    const { given, credentials } = await read();
    const { auth, values } = credentials;
    if (auth?.kind !== 'refresh') return null;
    const current = values.get(auth.accessToken);
    // Another call has renewed it meanwhile.
    if (current !== undefined && current !== refusedToken) return credentials;
    if (!values.has(auth.refreshToken)) return null;
    if (auth.rotates && saveCredentials === null) {
      throw unusable(
        'the access token ended, and there is no place here to store the new refresh token that comes with another one',
      );
    }
    throwIfRefused(credentials);
    const facts = factsOf(credentials);
    const url = await addressOf(auth.tokenUrl, facts, new AbortController().signal);
    const tokens = await requestTokens(url, auth, facts).catch((error: unknown) => {
      if (error instanceof EndedGrantError) facts.lane.keepRefusal(hashOf(credentials), error);
      throw error;
    });
    const changed = {
      [auth.accessToken]: tokens.accessToken,
      ...(tokens.refreshToken === null ? {} : { [auth.refreshToken]: tokens.refreshToken }),
    };
    await save(given, changed);
    return readCredentials(definition, upstream, { ...given, ...changed }, options.connector);
  };

  const renew = async (
    credentials: OpenCredentials,
    refusedToken: string | undefined,
    signal: AbortSignal,
  ): Promise<OpenedCall | null> => {
    const renewal = renewals.add(() => laneOf(credentials).alone(() => renewAlone(refusedToken)));
    // The caller gets it below, while it waits.
    renewal.catch(() => undefined);
    const renewed = await orAborted(renewal, signal);
    return renewed === null ? null : await opened(renewed, signal);
  };

  const accessToken = ({ auth, values }: OpenCredentials): string | undefined =>
    auth?.kind === 'refresh' ? values.get(auth.accessToken) : undefined;

  return {
    upstream,
    transport,
    clock,
    async open(signal: AbortSignal): Promise<OpenedCall> {
      signal.throwIfAborted();
      const { credentials } = await orAborted(read(), signal);
      throwIfRefused(credentials);
      const { auth } = credentials;
      if (auth?.kind === 'refresh' && accessToken(credentials) === undefined) {
        const renewed = await renew(credentials, undefined, signal);
        if (renewed === null) {
          throw unusable(`${auth.accessToken} has no value, nor has ${auth.refreshToken}`);
        }
        return renewed;
      }
      return await opened(credentials, signal);
    },
    /** After an answer that does not take the access token: another one, or null where there is no way to it. */
    async renew(refused: OpenedCall, signal: AbortSignal): Promise<OpenedCall | null> {
      const { auth, values } = refused.credentials;
      if (auth?.kind !== 'refresh' || !values.has(auth.refreshToken)) return null;
      return await renew(refused.credentials, accessToken(refused.credentials), signal);
    },
    /** Waits for a renewal that is under way. */
    settled: async (): Promise<void> => await renewals.onIdle(),
  };
}

function hashOf({ values }: OpenCredentials): string {
  return createHash('sha256')
    .update(JSON.stringify([...values]))
    .digest('hex');
}
