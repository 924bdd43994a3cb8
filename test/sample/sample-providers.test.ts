import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import type { Provider } from '../../src/service/provider.ts';
import { createSampleAccount, sampleProviders } from '../../src/sample/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';
import { definitionNamed, never } from '../support/service/store-world.ts';

const mailing = definitionNamed('email-marketing');
const notes = definitionNamed('workspace-notes');
const stored = (credentials: JsonObject | null) => ({
  credentials: () => credentials,
  saveCredentials: null,
});
const otherwise = { size: 'tiny', seed: 3, revision: 0 } as const;
const providers = sampleProviders({ accounts: new Map(), otherwise });

async function listOf(provider: Provider, definition: Definition, name: string, params: JsonObject) {
  return await provider.list({ entity: entityNamed(definition, name), params, signal: never });
}

describe('the sample third parties', () => {
  it('give every connector its own account, the same whenever it is asked for', async () => {
    const open = (connectorId: string): Provider =>
      providers.open({ connectorId, definition: mailing, ...stored(null) });
    const first = await listOf(open('a'), mailing, 'lists', { count: 10 });
    for (let number = 0; number < 70; number += 1) open(`other-${number}`);
    expect(await listOf(open('a'), mailing, 'lists', { count: 10 })).toEqual(first);
    const again = sampleProviders({ accounts: new Map(), otherwise });
    expect(
      await listOf(again.open({ connectorId: 'a', definition: mailing, ...stored(null) }), mailing, 'lists', {
        count: 10,
      }),
    ).toEqual(first);
    expect(await listOf(open('b'), mailing, 'lists', { count: 10 })).not.toEqual(first);
  });

  it('use an account that was brought along', async () => {
    const account = createSampleAccount({ definitionName: 'email-marketing', seed: 9, size: 'tiny' });
    const served = sampleProviders({
      accounts: new Map([['a', { ...account, get: () => ({ id: 'wrapped' }) }]]),
      otherwise,
    });
    const provider = served.open({ connectorId: 'a', definition: mailing, ...stored(null) });
    const { records } = await listOf(provider, mailing, 'lists', { count: 10 });
    expect(records).toEqual(account.list('lists', {}).slice(0, 10));
    const request = { entity: entityNamed(mailing, 'lists'), params: {}, signal: never };
    expect(await provider.get(request)).toEqual({ id: 'wrapped' });
    expect(await provider.download(request)).toBeNull();
  });

  it('page by tokens that hold for one connector alone, and for providers made later', async () => {
    const open = (connectorId: string): Provider =>
      providers.open({ connectorId, definition: notes, ...stored({ token: 'x' }) });
    const { metadata } = await listOf(open('a'), notes, 'users', { page_size: 1 });
    const start_cursor = metadata?.['next_cursor'] ?? null;
    const next = await listOf(open('a'), notes, 'users', { page_size: 1, start_cursor });
    expect(next.records).toHaveLength(1);
    await expect(listOf(open('b'), notes, 'users', { page_size: 1, start_cursor })).rejects.toMatchObject({
      status: 400,
    });
  });

  it('refuse credentials that begin with revoked, in a check and in every call, and repeat nothing of them', async () => {
    const connector = {
      connectorId: 'a',
      definition: notes,
      ...stored({ token: 'revoked-secret-7a1' }),
    };
    const check = await providers.check(connector, never);
    expect(check).toEqual({
      kind: 'sample',
      why: expect.stringContaining('does not take the credentials') as string,
    });
    expect(JSON.stringify(check)).not.toContain('7a1');
    const provider = providers.open(connector);
    const request = { entity: entityNamed(notes, 'users'), params: {}, signal: never };
    for (const call of [provider.list(request), provider.get(request), provider.download(request)]) {
      await expect(call).rejects.toMatchObject({ status: 401 });
    }
    for (const credentials of [null, {}, { token: 'ok' }, { token: 'not revoked' }]) {
      expect(await providers.check({ ...connector, ...stored(credentials) }, never)).toEqual({
        kind: 'sample',
        why: null,
      });
    }
  });

  it('say so where there is no sample data for a type of connector', async () => {
    const connector = {
      connectorId: 'a',
      definition: { ...notes, name: 'own', title: 'My own' },
      ...stored(null),
    };
    expect(await providers.check(connector, never)).toEqual({
      kind: 'sample',
      why: "This server has no sample data for connectors of the type 'My own'. Create a connector with credentials of the third party instead.",
    });
    await expect(listOf(providers.open(connector), notes, 'users', {})).rejects.toMatchObject({
      status: 400,
    });
  });

  it('do not answer a caller that has left', async () => {
    const provider = providers.open({ connectorId: 'a', definition: notes, ...stored(null) });
    const request = {
      entity: entityNamed(notes, 'users'),
      params: {},
      signal: AbortSignal.abort(new Error('left')),
    };
    for (const call of [provider.list(request), provider.get(request), provider.download(request)]) {
      await expect(call).rejects.toThrow('left');
    }
  });
});
