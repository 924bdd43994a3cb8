import { once } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ApiError } from '../../src/service/api-error.ts';
import { askProvider, type Provider, type Providers } from '../../src/service/provider.ts';
import { startService, type Service } from '../../src/service/start-service.ts';
import { definitionNamed, never } from '../support/service/store-world.ts';

const definition = definitionNamed('workspace-notes');
const client = { client_id: 'local', client_secret: 'a secret of this test' };
const connectorId = 'notes';
const opened: Service[] = [];

afterEach(async () => {
  vi.useRealTimers();
  for (const service of opened.splice(0)) await service.close();
});

interface Served {
  readonly service: Service;
  readonly failures: readonly unknown[];
  readonly disposed: () => number;
  /** The status, the body and the headers of an answer to `list` of users, or to a check. */
  readonly post: (action: 'execute' | 'check') => Promise<{ status: number; text: string; headers: Headers }>;
}

async function serve(
  list: Provider['list'],
  {
    check = async () => ({ kind: 'sample', why: null }),
    definitionName = definition.name,
  }: Partial<Providers> & {
    readonly definitionName?: string;
  } = {},
): Promise<Served> {
  const failures: unknown[] = [];
  let disposed = 0;
  const provider: Provider = { list, get: async () => null, download: async () => null };
  const providers: Providers = {
    open: () => provider,
    check,
    [Symbol.asyncDispose]: async () => void (disposed += 1),
  };
  const starting = startService({
    port: 0,
    clientId: client.client_id,
    clientSecret: client.client_secret,
    definitions: new Map([[definition.name, definition]]),
    connectors: [{ connectorId, definitionName, workspace: 'default' }],
    providers,
    onFailure: (error) => failures.push(error),
  });
  const service = await starting.catch((error: unknown) => {
    throw new Error(`disposed ${disposed} times`, { cause: error });
  });
  opened.push(service);
  const send = async (path: string, body: unknown, token = ''): Promise<Response> =>
    await fetch(`${service.url}/api/v1/${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token !== '' && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
  const { access_token: token } = (await (await send('account/applications/token', client)).json()) as {
    access_token: string;
  };
  return {
    service,
    failures,
    disposed: () => disposed,
    post: async (action) => {
      const body = action === 'execute' ? { entity: 'users', action: 'list' } : {};
      const answer = await send(`integrations/connectors/${connectorId}/${action}`, body, token);
      return { status: answer.status, text: await answer.text(), headers: answer.headers };
    },
  };
}

describe('a provider', () => {
  it('that throws an ApiError gives the answer, with its status, body and headers', async () => {
    const refuse = async (): Promise<never> => {
      throw new ApiError(429, 'Slow down.', { errorCode: 'upstream_busy', headers: { 'retry-after': '7' } });
    };
    const { post, failures } = await serve(refuse, { check: refuse });
    for (const action of ['execute', 'check'] as const) {
      const { status, text, headers } = await post(action);
      expect([status, headers.get('retry-after')]).toEqual([429, '7']);
      expect(JSON.parse(text)).toMatchObject({
        message: 'Slow down.',
        errors: [{ error_code: 'upstream_busy' }],
      });
    }
    expect(failures).toEqual([]);
  });

  it('that throws anything else gives a 500 that says nothing of it, and onFailure hears of it', async () => {
    const fault = new TypeError('sk-1 is not a function');
    const { post, failures } = await serve(async () => {
      throw fault;
    });
    const { status, text } = await post('execute');
    expect([status, text.includes('sk-1')]).toEqual([500, false]);
    expect(failures).toEqual([fault]);
  });

  it.each(['execute', 'check'] as const)(
    'that hangs in %s holds up no end of the service',
    async (action) => {
      const asked = new EventTarget();
      const signals: AbortSignal[] = [];
      const hang = async (signal: AbortSignal): Promise<never> => {
        signals.push(signal);
        asked.dispatchEvent(new Event('asked'));
        return await new Promise(() => undefined);
      };
      const served = await serve(({ signal }) => hang(signal), {
        check: (_connector, signal) => hang(signal),
      });
      const begun = once(asked, 'asked');
      const answer = served.post(action).catch(() => 'cut off');
      await begun;
      await served.service.close();
      expect(await answer).toBe('cut off');
      expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
      expect(served.disposed()).toBe(1);
    },
  );

  it('that hangs is given up after 300 seconds, with a 504 and an aborted signal', async () => {
    vi.useFakeTimers();
    const signals: AbortSignal[] = [];
    const late = expect(
      askProvider(never, async (signal) => {
        signals.push(signal);
        return await new Promise(() => undefined);
      }),
    ).rejects.toMatchObject({ status: 504, message: 'The third party did not answer in time.' });
    await vi.advanceTimersByTimeAsync(299_999);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await vi.advanceTimersByTimeAsync(1);
    await late;
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it('ends with the service, once, also with one that cannot start', async () => {
    const { service, disposed } = await serve(async () => ({ records: [], metadata: null }));
    await service.close();
    await service.close();
    expect(disposed()).toBe(1);
    const unknown = serve(async () => ({ records: [], metadata: null }), { definitionName: 'unknown' });
    await expect(unknown).rejects.toThrow('disposed 1 times');
  });
});
