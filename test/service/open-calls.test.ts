import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { mailing, serveApi, type ServedApi } from '../support/service/served-api.ts';

const opened: ServedApi[] = [];
const serve = async (options: Parameters<typeof serveApi>[0] = {}): Promise<ServedApi> => {
  const api = await serveApi(options);
  opened.push(api);
  return api;
};
afterEach(async () => {
  for (const api of opened.splice(0)) await api.service.close();
});

const executePath = (id: string): string => `/api/v1/integrations/connectors/${id}/execute`;
const library = {
  connectorId: 'library',
  workspace: 'default',
  definitionName: 'document-library',
  seed: 1,
  size: 'tiny',
} as const;

function event<Value>(): { readonly promise: Promise<Value>; readonly resolve: (value: Value) => void } {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve: (value) => resolve(value) };
}

/** Resolves with the reason for which a call's signal was aborted; the call waits until then. */
function heldAnswer(): {
  begun: Promise<void>;
  aborted: Promise<unknown>;
  hold: (signal?: AbortSignal) => Promise<never>;
} {
  const begun = event<void>();
  const aborted = event<unknown>();
  return {
    begun: begun.promise,
    aborted: aborted.promise,
    hold: (signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          aborted.resolve(signal.reason);
          reject(signal.reason as Error);
        });
        begun.resolve();
      }),
  };
}

describe('a client that goes away', () => {
  it('ends the wait for its answer', async () => {
    const held = heldAnswer();
    const failures: unknown[] = [];
    const api = await serve({
      latencyMs: 60_000,
      clock: { now: () => Date.now(), sleep: (_ms, signal) => held.hold(signal) },
      onFailure: (error) => failures.push(error),
    });
    const leaving = new AbortController();
    const answer = fetch(`${api.service.url}${executePath(mailing)}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ entity: 'lists', action: 'list' }),
      signal: leaving.signal,
    });
    await held.begun;
    leaving.abort();
    await expect(answer).rejects.toThrow();
    expect(await held.aborted).toMatchObject({ message: 'The client has disconnected.' });
    await api.service.close();
    expect(failures).toEqual([]);
  });

  it('ends the reading of the file that it was sent', async () => {
    const held = heldAnswer();
    const account = createSampleAccount(library);
    const slow: SampleAccount = {
      list: (entity, params) => account.list(entity, params),
      get: (entity, params) => account.get(entity, params),
      file: () => ({
        name: 'endless',
        contentType: 'text/plain',
        size: 1_000_000,
        async *read(signal) {
          yield new Uint8Array(1000);
          yield new Uint8Array(1000);
          await held.hold(signal);
        },
      }),
    };
    const api = await serve({ accounts: [{ ...library, account: slow }] });
    const leaving = new AbortController();
    const response = await fetch(`${api.service.url}${executePath('library')}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ entity: 'attachments', action: 'download', params: { attachment_id: 'x' } }),
      signal: leaving.signal,
    });
    expect(response.status).toBe(200);
    await held.begun;
    leaving.abort();
    await held.aborted;
    await response.body?.cancel().catch(() => {
      // Aborted: there is nothing left to cancel.
    });
  });
});

describe('a download', () => {
  // Proves specification 2.2.2
  it('is the bytes and nothing else, as many as the listing says', async () => {
    const api = await serve({ accounts: [library] });
    const attachments: JsonObject[] = [];
    for (const folder of (await api.list('library', 'folders')).records) {
      const folderId = folder['id'] ?? null;
      for (const { id = null } of (await api.list('library', 'documents', { folder_id: folderId })).records) {
        attachments.push(...(await api.list('library', 'attachments', { document_id: id })).records);
      }
    }
    expect(attachments.length).toBeGreaterThan(0);
    for (const { id = null, size } of attachments.slice(0, 5)) {
      const response = await fetch(`${api.service.url}${executePath('library')}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${api.token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ entity: 'attachments', action: 'download', params: { attachment_id: id } }),
      });
      const bytes = Buffer.from(await response.arrayBuffer());
      expect([response.status, bytes.length]).toEqual([200, size]);
      expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename=/);
    }
  });
});

describe('a service that closes', () => {
  it('calls it no failure that what was still worked on finds everything closed', async () => {
    const failures: unknown[] = [];
    const api = await serve({ onFailure: (error) => failures.push(error) });
    const dropping = event<void>();
    const dropped = event<void>();
    const drop = (): Promise<void> => {
      dropping.resolve();
      return dropped.promise;
    };
    Object.assign(api.service.stores, { drop });
    const answer = api.call(`/api/v1/integrations/connectors/${mailing}`, { method: 'DELETE' });
    const refused = expect(answer).rejects.toThrow();
    await dropping.promise;
    await api.service.close();
    await refused;
    dropped.resolve();
    await setImmediate();
    expect(failures).toEqual([]);
  });

  it('ends what is under way, and can be started again on its port', async () => {
    const held = heldAnswer();
    const failures: unknown[] = [];
    const api = await serve({
      latencyMs: 1,
      clock: { now: () => Date.now(), sleep: (_ms, signal) => held.hold(signal) },
      onFailure: (error) => failures.push(error),
    });
    const answer = api.execute(mailing, { entity: 'lists', action: 'list' });
    const refused = expect(answer).rejects.toThrow();
    await held.begun;
    await api.service.close();
    await refused;
    await held.aborted;
    expect(failures).toEqual([]);
    const again = await serve({ port: Number(new URL(api.service.url).port) });
    expect(again.service.url).toBe(api.service.url);
  });
});
