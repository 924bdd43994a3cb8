import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { memberOf, type JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import { keyOfToken } from '../definitions/pagination-file.ts';
import { UpstreamFailure } from '../upstream/upstream-failure.ts';

/**
 * Page tokens that hold any parameters of a next address are sealed before a client gets them: unsealed, a client could
 * set parameters of the third party that no definition declares, such as one that turns a `GET` into a `DELETE`. A seal
 * is valid for one entity of one connector, until the server stops. After that the token is stale, and the client
 * starts its listing again.
 */
export function sealedTokens() {
  const key = randomBytes(32);
  const sealOf = (connectorId: string, { name }: Entity, token: string): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([connectorId, name, token]))
      .digest();
  return {
    /** The parameters with the token as the third party's account reads it. Throws `UpstreamFailure` staleToken. */
    open(connectorId: string, definition: Definition, entity: Entity, params: Params): Params {
      const rules = sealedIn(definition, entity);
      const sent = rules === null ? undefined : memberOf(params, rules.tokenParam);
      if (rules === null || typeof sent !== 'string' || sent === '') return params;
      const given = Buffer.from(sent.slice(0, sealLength), 'base64url');
      const token = sent.slice(sealLength);
      const expected = sealOf(connectorId, entity, token);
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        const text =
          'the page token was not given out for this listing since the server started: begin again';
        throw new UpstreamFailure('staleToken', text, { reason: 'request' });
      }
      return { ...params, [rules.tokenParam]: token };
    },
    seal(
      connectorId: string,
      definition: Definition,
      entity: Entity,
      metadata: JsonObject | null,
    ): JsonObject | null {
      const rules = sealedIn(definition, entity);
      const [tokenKey] = rules?.tokenKeys ?? [];
      const name = tokenKey === undefined ? '' : keyOfToken(tokenKey);
      const token = metadata === null ? undefined : memberOf(metadata, name);
      if (typeof token !== 'string') return metadata;
      const seal = sealOf(connectorId, entity, token).toString('base64url');
      return { ...metadata, [name]: `${seal}${token}` };
    },
  };
}

/** Of 32 bytes as base64url. */
const sealLength = 43;

/** Null: the tokens of its listing hold named parameters only, or none. */
function sealedIn({ upstream }: Definition, { name, pagination }: Entity) {
  const paging = upstream?.entities.get(name)?.list.paging;
  const isAny = paging !== undefined && 'keep' in paging && 'except' in paging.keep;
  return isAny && pagination.kind === 'pageToken' ? pagination : null;
}
