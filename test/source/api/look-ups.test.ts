import { afterEach, describe, expect, it } from 'vitest';
import type { ConnectorId } from '../../../src/core/names.ts';
import { apiError, held, json } from '../../support/hostile/replies.ts';
import type { Reply } from '../../support/hostile/exchange.ts';
import { startHostileServer, type HostileServer } from '../../support/hostile-server.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { openTestClient } from '../../support/source/open-test-source.ts';

const { signal: never } = new AbortController();
const id = 'c1' as ConnectorId;
const found = json(200, { id: 'c1', name: 'One', source_template: { actor_definition_id: 'd1' } });
const cacheForMs = 60_000;
let server: HostileServer | null = null;
afterEach(() => server?.[Symbol.asyncDispose]());

async function serve(respondGet: (index: number) => Reply) {
  let asked = 0;
  server = await startHostileServer({ respondGet: () => respondGet(asked++) });
  const clock = instantClock();
  const client = openTestClient(server.baseUrl, { clock, cacheForMs });
  return { client, clock, asked: () => asked };
}

describe('a look-up of a connector', () => {
  it('is made once for all that ask within the time that it counts', async () => {
    const { client, clock, asked } = await serve(() => found);
    const all = await Promise.all(Array.from({ length: 20 }, () => client.connector(id, never)));
    expect(new Set(all.map(({ definitionId }) => definitionId))).toEqual(new Set(['d1']));
    await client.connector(id, never);
    expect(asked()).toBe(1);
    await clock.sleep(cacheForMs, never);
    await client.connector(id, never);
    expect(asked()).toBe(2);
  });

  it('is made again where a fresh answer is asked for, which then counts for all', async () => {
    const { client, asked } = await serve((index) => (index === 0 ? found : apiError(404, 'no connector')));
    await client.connector(id, never);
    await expect(client.connector(id, never, { isFresh: true })).rejects.toMatchObject({
      code: 'CONNECTOR_UNKNOWN',
    });
    await expect(client.connector(id, never)).rejects.toMatchObject({ code: 'CONNECTOR_UNKNOWN' });
    expect(asked()).toBe(3);
  });

  it('is not kept when it failed', async () => {
    const { client } = await serve((index) => (index === 0 ? apiError(403, 'no') : found));
    await expect(client.connector(id, never)).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(await client.connector(id, never)).toMatchObject({ id: 'c1' });
  });

  it('continues for the other callers when the first one aborts', async () => {
    const answer = deferred();
    const { client, asked } = await serve(() => held(answer.promise, found));
    const leaving = new AbortController();
    const first = client.connector(id, leaving.signal);
    const second = client.connector(id, never);
    leaving.abort(new Error('left'));
    await expect(first).rejects.toThrow('left');
    answer.resolve(undefined);
    expect(await second).toMatchObject({ id: 'c1' });
    expect(asked()).toBe(1);
  });

  it('of a workspace serves all of its connectors of a type', async () => {
    const { client, asked } = await serve(() => json(200, { data: [{ id: 'c1' }, { id: 'c2' }] }));
    const filter = { workspace: 'default', definitionId: 'd1' };
    for (let run = 0; run < 5; run += 1) expect(await client.findConnectors(filter, never)).toHaveLength(2);
    await client.findConnectors({ ...filter, definitionId: 'd2' }, never);
    expect(asked()).toBe(2);
  });
});

function deferred(): { readonly promise: Promise<undefined>; resolve(value: undefined): void } {
  let resolve: (value: undefined) => void = () => undefined;
  const promise = new Promise<undefined>((settle) => (resolve = settle));
  return { promise, resolve };
}
