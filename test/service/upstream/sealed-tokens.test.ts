import { expect, it } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { object, objects, text } from '../../support/service/served-api.ts';
import { opened, refusalOf, serveWorlds } from '../../support/upstream/served-world.ts';
import { deskWorld } from '../../support/upstream/upstream-world.ts';

it('takes a token of any parameters only as it was given out, and for the listing that it belongs to', async () => {
  const world = await opened(deskWorld());
  const served = await serveWorlds([world]);
  const id = await served.connect(world, { query_key: world.fake.key });
  const other = await served.connect(world, { header_key: world.fake.key });
  const list = async (connector: string, entity: string, params: JsonObject) =>
    await served.execute(connector, { entity, action: 'list', params });
  const first = await list(id, 'reviews', { limit: 20 });
  const cursor = text(object(first.body['connector_metadata'])['next_cursor']);
  expect(cursor).not.toContain(world.fake.key);
  const second = await list(id, 'reviews', { limit: 20, cursor });
  expect(objects(second.body['result'])).toEqual(world.fake.rows('reviews').slice(20, 40));

  world.fake.takeRequests();
  const changed = [
    [id, 'reviews', `${cursor}&_method=DELETE`],
    [id, 'reviews', '?_method=DELETE'],
    [id, 'reviews', cursor.slice(0, 20)],
    [id, 'parcels', cursor],
    [other, 'reviews', cursor],
  ] as const;
  for (const [connector, entity, token] of changed) {
    const refusal = refusalOf(await list(connector, entity, { cursor: token }));
    expect(refusal).toMatchObject({ status: 400, code: 'upstream_stale_token' });
  }
  expect(world.fake.takeRequests()).toEqual([]);
});
