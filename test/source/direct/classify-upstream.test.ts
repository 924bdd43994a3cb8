import { describe, expect, it } from 'vitest';
import { ThrottledError, type ErrorCode, type Recovery } from '../../../src/core/errors.ts';
import type { FailureClass } from '../../../src/definitions/upstream/upstream-file.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { callFacts } from '../../../src/source/api/call-failure.ts';
import { classifyUpstream } from '../../../src/source/direct/open-direct-source.ts';
import { builtInDefinition } from '../../support/sample-service.ts';
import { UpstreamFailure, type FailureFacts } from '../../../src/upstream/upstream-failure.ts';

const page = callFacts('execute', 'list members', { canShrink: true });
const root = callFacts('execute', 'list lists', { isRoot: true });
const check = callFacts('catalog', 'check the credentials');

describe('a failure of the service itself', () => {
  it.each<[FailureClass, Partial<FailureFacts>, ErrorCode, Recovery, number | null]>([
    ['unauthorized', { status: 401 }, 'AUTH_FAILED', 'stop', null],
    ['unauthorized', { reason: 'credentials' }, 'AUTH_FAILED', 'stop', null],
    ['forbidden', { status: 403 }, 'FORBIDDEN', 'skip-partition', null],
    ['quota', { status: 402 }, 'QUOTA_EXHAUSTED', 'stop', null],
    ['throttled', { status: 429 }, 'THROTTLED', 'throttle', Infinity],
    ['edge', { status: 403, waitMs: 60_000 }, 'THROTTLED', 'throttle', Infinity],
    ['notFound', { status: 404 }, 'NOT_FOUND', 'skip-partition', null],
    ['staleToken', { status: 400 }, 'TOKEN_EXPIRED', 'restart-walk', null],
    ['tooLarge', { reason: 'tooLarge' }, 'BODY_TOO_LARGE', 'smaller-page', null],
    ['unavailable', { status: 504 }, 'TIMEOUT', 'smaller-page', 0],
    ['unavailable', { reason: 'timeout' }, 'TIMEOUT', 'smaller-page', 0],
    ['unavailable', { status: 500 }, 'UPSTREAM', 'retry', Infinity],
    ['unavailable', { reason: 'network' }, 'NETWORK', 'retry', Infinity],
    ['unavailable', { reason: 'name' }, 'NETWORK', 'retry', 1],
    ['unavailable', { reason: 'brokenBody', status: 200 }, 'BODY_INVALID', 'retry', Infinity],
    ['unavailable', { reason: 'notJson', status: 200 }, 'BODY_INVALID', 'retry', Infinity],
    ['unavailable', { reason: 'noRecords', status: 200 }, 'BODY_INVALID', 'skip-partition', 1],
    ['unavailable', { reason: 'brokenRecords', status: 200 }, 'BODY_INVALID', 'skip-partition', Infinity],
    ['refused', { status: 400 }, 'REQUEST_REFUSED', 'skip-partition', null],
    ['refused', { reason: 'address' }, 'CONFIG_INVALID', 'stop', null],
    ['refused', { reason: 'network' }, 'NETWORK', 'stop', null],
    ['refused', { reason: 'redirect', status: 302 }, 'REDIRECTED', 'skip-partition', null],
  ])('of the class %s with %o is %s, %s', (failureClass, facts, code, recovery, most) => {
    const failure = new UpstreamFailure(failureClass, 'words of the service', { reason: 'answer', ...facts });
    const { error, retry } = classifyUpstream(failure, page);
    expect({ code: error.code, recovery: error.recovery, most: retry?.most ?? null }).toEqual({
      code,
      recovery,
      most,
    });
    expect(error.message).toContain('words of the service');
    expect(error.message, 'whether it is depends on what called').not.toContain('tried again');
  });

  it.each([
    ['forbidden', root, 'skip-entity'],
    ['notFound', root, 'skip-entity'],
    ['refused', root, 'skip-entity'],
    ['forbidden', check, 'stop'],
    ['notFound', check, 'stop'],
  ] as const)('of the class %s concerns what was asked for', (failureClass, facts, recovery) => {
    const failure = new UpstreamFailure(failureClass, 'no', { reason: 'answer', status: 403 });
    expect(classifyUpstream(failure, facts).error.recovery).toBe(recovery);
  });

  it('says how long a pause is that the service asks for', () => {
    const failure = new UpstreamFailure('throttled', 'slow', { reason: 'gate', waitMs: 90_000 });
    const { error, retry } = classifyUpstream(failure, page);
    expect(error).toBeInstanceOf(ThrottledError);
    expect(error).toMatchObject({ retryAfterMs: 90_000 });
    expect(retry).toMatchObject({ wait: 'throttle', afterMs: 90_000 });
  });

  it("is what the definition's errors say, where its words and status are named there", () => {
    const { errors: patterns, entities } = builtInDefinition('workspace-notes');
    const entity = entities.get('blocks' as EntityName)?.name ?? null;
    const facts = { ...root, patterns, entity };
    const refused = new UpstreamFailure('refused', 'AI_BLOCK is not known', {
      reason: 'answer',
      status: 400,
    });
    expect(classifyUpstream(refused, facts).error.recovery).toBe('skip-partition');
    const collided = new UpstreamFailure('unavailable', 'a data collision', {
      reason: 'answer',
      status: 409,
    });
    expect(classifyUpstream(collided, facts).error.code).toBe('THROTTLED');
  });
});
