import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import PQueue from 'p-queue';
import { type Clock, systemClock } from '../core/clock.ts';
import { type JsonObject, memberOf } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { keyOfToken } from '../definitions/pagination-file.ts';
import { openMachineSlots, openCallGate } from '../upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../upstream/open-upstream.ts';
import { type FailureReason, UpstreamFailure } from '../upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../upstream/upstream-transport.ts';
import { ApiError } from './api-error.ts';
import type { ProvidedConnector, Provider, Providers } from './provider.ts';

/**
 * Page tokens that hold any parameters of a next address are sealed before a client gets them: unsealed, a client could
 * set parameters of the third party that no definition declares, such as one that turns a `GET` into a `DELETE`. A seal
 * is valid for one entity of one connector, until the server stops. After that the token is stale, and the client
 * starts its listing again.
 */
function sealedTokens(key: Buffer, { connectorId, definition }: ProvidedConnector) {
  const sealOf = ({ name }: Entity, token: string): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([connectorId, name, token]))
      .digest();
  return {
    /** The parameters with the token as the third party's account reads it. Throws `UpstreamFailure` staleToken. */
    open(entity: Entity, params: Params): Params {
      const rules = sealedIn(definition, entity);
      const sent = rules === null ? undefined : memberOf(params, rules.tokenParam);
      if (rules === null || typeof sent !== 'string' || sent === '') return params;
      const given = Buffer.from(sent.slice(0, sealLength), 'base64url');
      const token = sent.slice(sealLength);
      const expected = sealOf(entity, token);
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        const text =
          'the page token was not given out for this listing since the server started: begin again';
        throw new UpstreamFailure('staleToken', text, { reason: 'request' });
      }
      return { ...params, [rules.tokenParam]: token };
    },
    seal(entity: Entity, metadata: JsonObject | null) {
      const [tokenKey] = sealedIn(definition, entity)?.tokenKeys ?? [];
      const name = tokenKey === undefined ? '' : keyOfToken(tokenKey);
      const token = metadata === null ? undefined : memberOf(metadata, name);
      if (typeof token !== 'string') return metadata;
      return { ...metadata, [name]: `${sealOf(entity, token).toString('base64url')}${token}` };
    },
  };
}

/** Length of 32 bytes as base64url. */
const sealLength = 43;

/** Null: the tokens of its listing hold named parameters only, or none. */
function sealedIn({ upstream }: Definition, { name, pagination }: Entity) {
  const paging = upstream?.entities.get(name)?.list.paging;
  const isAny = paging !== undefined && 'keep' in paging && 'except' in paging.keep;
  return isAny && pagination.kind === 'pageToken' ? pagination : null;
}

export interface UpstreamProvidersOptions {
  /** As of `UpstreamTransportOptions`. */
  readonly allowHosts: readonly string[];
  readonly clock?: Clock;
}

/**
 * The third parties themselves, called as each definition's `upstream` says. All calls with one credential share its
 * limits. `open` and `check` throw `TypeError` for a definition without `upstream`.
 */
export function upstreamProviders({ allowHosts, clock = systemClock }: UpstreamProvidersOptions): Providers {
  const transport = openUpstreamTransport({ allowHosts });
  /** The key of the seals of page tokens. */
  const tokenKey = randomBytes(32);
  const gate = openCallGate({ clock, machineSlots: openMachineSlots(clock) });
  /**
   * Calls that have not ended, with the renewals of tokens that they began: a new refresh token that nothing stores is
   * lost.
   */
  const unfinished = new PQueue();

  const call = <Answer>(connector: ProvidedConnector, ask: (account: UpstreamAccount) => Promise<Answer>) => {
    const account = openAccount(connector);
    const answer = ask(account);
    const settled = async (): Promise<void> => await account.close();
    void unfinished.add(() => answer.then(settled, settled));
    return answer;
  };
  const openAccount = ({ connectorId, definition, credentials, saveCredentials }: ProvidedConnector) => {
    let read: JsonObject = {};
    return openUpstream({
      definition,
      connector: connectorId,
      gate,
      transport,
      clock,
      credentials: async () => (read = credentials() ?? {}),
      saveCredentials: saveCredentials === null ? null : async (renewed) => saveCredentials(read, renewed),
    });
  };

  return {
    open: (connector) =>
      upstreamProvider(connector, sealedTokens(tokenKey, connector), async (ask) => {
        try {
          return await call(connector, ask);
        } catch (error) {
          throw answered(error, connector.definition);
        }
      }),
    async check(connector, signal) {
      try {
        const { identity } = await call(connector, (account) => account.check(signal));
        const account = identity ?? '';
        if (typeof connector.account !== 'string' || connector.account === account) {
          return { kind: 'account', account };
        }
        return { kind: 'refused', why: 'The credentials belong to another account by now.' };
      } catch (error) {
        // The third party was reached and does not take the credentials, or they cannot be used to reach it.
        const isNo =
          error instanceof UpstreamFailure &&
          (['unauthorized', 'forbidden'].includes(error.class) || error.reason === 'credentials');
        if (isNo) return { kind: 'refused', why: answerTo(error, connector.definition).message };
        throw answered(error, connector.definition);
      }
    },
    async [Symbol.asyncDispose]() {
      await unfinished.onIdle();
      await transport[Symbol.asyncDispose]();
    },
  };
}

function upstreamProvider(
  { definition }: ProvidedConnector,
  tokens: ReturnType<typeof sealedTokens>,
  call: <Answer>(ask: (account: UpstreamAccount) => Promise<Answer>) => Promise<Answer>,
): Provider {
  return {
    list: async ({ entity, params, signal }) => {
      const page = await call((account) => {
        return account.list({ entity: entity.name, params: tokens.open(entity, params) }, signal);
      });
      return { ...page, metadata: tokens.seal(entity, page.metadata) };
    },
    get: async ({ entity, params, signal }) =>
      await call((account) => account.get({ entity: entity.name, params }, signal)),
    async download({ entity, params, signal }) {
      const file = await call((account) => account.download({ entity: entity.name, params }, signal));
      if (file === null) return null;
      return {
        name: file.name ?? 'file',
        contentType: file.contentType ?? 'application/octet-stream',
        size: file.size,
        async *read(reading) {
          try {
            yield* file.read(reading);
          } catch (error) {
            throw answered(error, definition);
          } finally {
            file.close();
          }
        },
      };
    },
  };
}

function answered(error: unknown, definition: Definition): unknown {
  return error instanceof UpstreamFailure ? answerTo(error, definition) : error;
}

/**
 * Turns a failure at the third party into one for a client of this service. Its class decides; `error_code` lets a
 * client decide the same, where a status means more than one thing.
 */
export function answerTo(failure: UpstreamFailure, { title }: Pick<Definition, 'title'>): ApiError {
  const { text, waitMs } = failure;
  const [status, code] = kindOf(failure);
  const message =
    code === 'unauthorized'
      ? `${title} does not take the credentials of this connector: ${text}`
      : failure.class === 'refused' && failure.reason === 'address'
        ? `${text}. To allow it, start this server with --allow-upstream-host and its name (host:port where the port is not that of baseUrl).`
        : text;
  const waits = code === 'throttled' && waitMs !== null;
  return new ApiError(status, message, {
    errorCode: `upstream_${code}`,
    headers: waits ? { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1_000))) } : {},
  });
}

type Kind = readonly [status: number, code: string];

function kindOf({ class: failureClass, reason, status }: UpstreamFailure): Kind {
  const isTimeout = failureClass === 'unavailable' && (reason === 'timeout' || status === 504);
  if (isTimeout) return [504, 'timeout'];
  if (failureClass === 'refused' && unusable.has(reason)) return [502, 'unusable'];
  return kinds[failureClass];
}

const kinds: Readonly<Record<UpstreamFailure['class'], Kind>> = {
  unauthorized: [401, 'unauthorized'],
  forbidden: [403, 'forbidden'],
  quota: [402, 'quota'],
  throttled: [429, 'throttled'],
  edge: [429, 'throttled'],
  notFound: [404, 'not_found'],
  staleToken: [400, 'stale_token'],
  tooLarge: [502, 'too_large'],
  unavailable: [502, 'unavailable'],
  refused: [400, 'refused'],
};

const unusable: ReadonlySet<FailureReason> = new Set([
  'redirect',
  'otherOrigin',
  'notJson',
  'brokenBody',
  'address',
  'network',
  'name',
]);
