import type { EntityName } from '../../core/names.ts';
import type { Entity } from '../definition.ts';
import { buildAuthentication, buildHostVariable } from './build-authentication.ts';
import { buildEntityRequests, buildRequest } from './build-requests.ts';
import { answerPath } from './answer-place.ts';
import type { ErrorRule, HeaderTime, Wait } from './failure-class.ts';
import { checkedTemplate } from './template.ts';
import type { Upstream } from './upstream.ts';
import type { UpstreamFile } from './upstream-file.ts';

/** What a checked `upstream:` says, with every default filled in. */
export function buildUpstream(file: UpstreamFile, entities: ReadonlyMap<EntityName, Entity>): Upstream {
  const { check, failed, limits, remaining } = file;
  return {
    baseUrl: checkedTemplate(file.baseUrl),
    host: new Map(Object.entries(file.host).map(([name, one]) => [name, buildHostVariable(one)])),
    auth: new Map(Object.entries(file.auth).map(([title, one]) => [title, buildAuthentication(one)])),
    check: {
      request: buildRequest(file, check, { headers: {}, timeoutMs: null, maxBodyBytes: null }),
      identity: check.identity.map(answerPath),
      name: check.name === null ? null : answerPath(check.name),
    },
    limits: { concurrency: limits.concurrency, requestsPerSecond: limits.requestsPerSecond },
    message: file.message.map(answerPath),
    failed:
      failed === null
        ? null
        : {
            path: answerPath(failed.path),
            is: failed.is,
            code: failed.code === null ? null : answerPath(failed.code),
          },
    errors: file.errors.map((rule) => buildRule(rule, [...entities.keys()])),
    retryAfter: file.retryAfter.map(buildWait),
    remaining:
      remaining === null
        ? null
        : { header: remaining.header.toLowerCase(), reset: headerTime(remaining.reset) },
    entities: new Map(
      [...entities].map(([name, entity]) => [name, buildEntityRequests(file, file.entities[name], entity)]),
    ),
  };
}

function buildRule(rule: UpstreamFile['errors'][number], entities: readonly EntityName[]): ErrorRule {
  return {
    status: rule.status,
    where: Object.entries(rule.where).map(([path, is]) => ({ path: answerPath(path), is })),
    contains: rule.contains,
    hasHeader: rule.hasHeader?.toLowerCase() ?? null,
    lacksHeader: rule.lacksHeader?.toLowerCase() ?? null,
    entity: entities.find((name) => name === rule.entity) ?? null,
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a rule is never awaited
    then: rule.then,
  };
}

function buildWait({ header = '', format = 'seconds', seconds }: UpstreamFile['retryAfter'][number]): Wait {
  return seconds === undefined
    ? { kind: 'header', ...headerTime({ header, format }) }
    : { kind: 'constant', seconds };
}

function headerTime({ header, format }: HeaderTime): HeaderTime {
  return { header: header.toLowerCase(), format };
}
