import { describe, expect, it } from 'vitest';
import { ApiError } from '../../../src/service/api-error.ts';
import type { Provider } from '../../../src/service/provider.ts';
import { answerCall, type CallAnswer } from '../../../src/service/store/answer-call.ts';
import { definitionNamed, never } from '../../support/service/store-world.ts';

const list = JSON.stringify({ entity: 'users', action: 'list', params: { page_size: 5 } });

async function answer(listing: Provider['list'], { body = list, signal = never } = {}): Promise<CallAnswer> {
  const provider: Provider = { list: listing, get: async () => null, download: async () => null };
  const definition = definitionNamed('workspace-notes');
  return await answerCall({ connectorId: 'one', definition, provider }, body, signal);
}

describe('a call of the process of a sync', () => {
  it('is answered as over HTTP, with every digit of large integers', async () => {
    const records = [{ id: 'a', number: 9_007_199_254_740_993n }];
    const { status, text } = await answer(async ({ params }) => ({ records, metadata: { asked: params } }));
    expect(status).toBe(200);
    expect(text).toContain('9007199254740993');
    expect(text).toContain('"asked":{"page_size":5}');
  });

  it('is refused as the provider refuses it, with the time to wait', async () => {
    const headers = { 'Retry-After': '7' };
    const limited = await answer(async () => {
      throw new ApiError(429, 'slow down', { headers });
    });
    expect(limited).toMatchObject({ status: 429, retryAfter: '7' });
    expect(JSON.parse(limited.text)).toMatchObject({ message: 'slow down' });
  });

  it('says nothing of the inside where the provider breaks, and never rejects', async () => {
    const broken = await answer(async () => {
      throw new TypeError('secret sk-1 in a stack');
    });
    expect(broken).toEqual({
      status: 500,
      text: '{"message":"The server failed to answer this request."}',
      retryAfter: null,
    });
    for (const body of ['', '{}', '[', JSON.stringify({ entity: 'nobody', action: 'list' })]) {
      expect((await answer(async () => ({ records: [], metadata: null }), { body })).status).toBeGreaterThan(
        399,
      );
    }
  });

  it('ends with the process that asked, also where the provider does not listen', async () => {
    const left = new AbortController();
    const signals: AbortSignal[] = [];
    const waiting = answer(
      async ({ signal }) => {
        signals.push(signal);
        return await new Promise(() => undefined);
      },
      { signal: left.signal },
    );
    left.abort();
    expect((await waiting).status).toBe(504);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });
});
