import { describe, expect, it } from 'vitest';
import type { Reply } from '../../support/hostile/exchange.ts';
import { apiError, html, json, success } from '../../support/hostile/replies.ts';
import { failureOf, never, openTestSource, type TestSource } from '../../support/source/open-test-source.ts';
import { entityName } from '../../support/source/test-definition.ts';

const partitions = Array.from({ length: 13 }, (_, index) => `list-${index}`);

let open: TestSource;

const list = (id: string, entity = 'tags') =>
  open.source.list({ entity: entityName(entity), params: { list_id: id }, isRoot: false }, never);

describe('an entity whose answers are none', () => {
  // Proves promise 8.1
  it.each<[string, Reply]>([
    ['HTML', html(200)],
    ['another envelope', json(200, { hello: 'world' })],
    ['a status that is not success', json(200, { status: 'error', result: null })],
  ])('costs the attempts of one partition, and one call of each other: %s', async (_what, reply) => {
    open = await openTestSource({ respond: () => reply });
    for (const id of partitions) expect(await failureOf(list(id))).toMatchObject({ code: 'BODY_INVALID' });
    expect(open.server.calls).toHaveLength(13 + 5);
  });

  it('costs one call more where the partitions are asked for at once', async () => {
    open = await openTestSource({ respond: () => html(200) });
    const failures = await Promise.all(partitions.map((id) => failureOf(list(id))));
    expect(failures.map(({ code }) => code)).toEqual(partitions.map(() => 'BODY_INVALID'));
    expect(open.server.calls).toHaveLength(13 + 5 + 1);
  });

  it('takes nothing from the other entities', async () => {
    open = await openTestSource({
      respond: ({ entity, index }) => (entity === 'tags' || index % 2 === 0 ? html(200) : success([])),
    });
    for (const id of partitions) await failureOf(list(id));
    await expect(list('list-1', 'members')).resolves.toMatchObject({ records: { length: 0 } });
  });

  // Proves promise 8.1
  it('is repeated for again after one answer', async () => {
    let isDown = true;
    open = await openTestSource({
      respond: ({ index }) => (isDown || index === 20 ? html(200) : success([])),
    });
    for (const id of partitions) await failureOf(list(id));
    expect(open.server.calls).toHaveLength(18);
    isDown = false;
    await list('list-0');
    await list('list-1');
    // The next answer is broken, and the call is retried until a good one.
    await list('list-2');
    expect(open.server.calls).toHaveLength(22);
  });

  it('answers all concurrent callers when it recovers', async () => {
    open = await openTestSource({ respond: ({ index }) => (index < 15 ? html(200) : success([])) });
    await Promise.all(partitions.map((id) => list(id)));
    expect(open.server.calls.length).toBeGreaterThan(15);
  });
});

describe("failures that are not the entity's", () => {
  it('of one partition leave the others their attempts', async () => {
    const seen = new Map<unknown, number>();
    open = await openTestSource({
      respond: ({ params }) => {
        const count = (seen.get(params['list_id']) ?? 0) + 1;
        seen.set(params['list_id'], count);
        return params['list_id'] === 'list-0' || count === 1 ? html(200) : success([]);
      },
    });
    const [first, ...others] = await Promise.allSettled(partitions.map((id) => list(id)));
    expect(first?.status).toBe('rejected');
    expect(others.map(({ status }) => status)).toEqual(others.map(() => 'fulfilled'));
  });

  it('of overload are repeated for each call', async () => {
    open = await openTestSource({ respond: () => apiError(500, 'Oops') });
    await failureOf(list('list-0'));
    await failureOf(list('list-1'));
    expect(open.server.calls).toHaveLength(12);
  });
});
