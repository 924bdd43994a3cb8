import { describe, expect, it } from 'vitest';
import { describedService } from '../support/described/described-service.ts';
import type { ReceivedRequest, Reply } from '../support/third-party/start-third-party.ts';

const definition = `
credentials: [{ title: Client, fields: { id: {}, secret: {}, account: { required: false } } }]
entities:
  things: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
upstream:
  baseUrl: $ORIGIN
  auth:
    Client:
      kind: clientCredentials
      clientId: { field: id }
      clientSecret: { field: secret }
      tokenUrl: $ORIGIN/token
      style: basic
      format: form
      scope: read:things read:me
      params: { audience: things }
      keeps: { account: account.id }
  headers: { X-Account: { field: account } }
  check: { path: /me, identity: id }
  limits: { concurrency: 1, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities: { things: { list: { path: /things, records: '' } } }
`;
const credentials = { id: 'client-1', secret: 'planted-secret-14142135' };

/** A service whose token holds for so many calls. */
function serving(holds: number): (request: ReceivedRequest) => Reply {
  let issued = 0;
  let left = 0;
  return ({ path, headers }) => {
    if (path === '/token') {
      issued += 1;
      left = holds;
      return { body: { access_token: `planted-token-${issued}-17320508`, account: { id: 'acct-7' } } };
    }
    left -= 1;
    const isTaken = left >= 0 && headers.authorization === `Bearer planted-token-${issued}-17320508`;
    if (!isTaken) return { status: 401, body: { error: 'the token has ended' } };
    return { body: path === '/me' ? { id: 'acct-7' } : [{ id: '1' }] };
  };
}

describe('a connector whose credentials are those of a client', () => {
  it('asks for a token before the first call, and sends what came with it', async () => {
    const service = await describedService({ definition, credentials, respond: serving(10) });
    await service.sync();
    const [token, ...calls] = service.requests;
    expect(token).toMatchObject({
      path: '/token',
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`client-1:${credentials.secret}`)}` },
    });
    expect(Object.fromEntries(new URLSearchParams(token?.body))).toEqual({
      grant_type: 'client_credentials',
      scope: 'read:things read:me',
      audience: 'things',
    });
    expect(calls.map(({ path, headers }) => [path, headers['x-account']])).toEqual([
      ['/me', 'acct-7'],
      ['/things', 'acct-7'],
    ]);
    expect(service.rows('things').size).toBe(1);
  });

  it('asks for another one when it has ended, and stores none', async () => {
    const service = await describedService({ definition, credentials, respond: serving(1) });
    const result = await service.cli('sync');
    expect(result.code).toBe(0);
    expect(service.requests.map(({ path }) => path)).toEqual([
      '/token',
      '/me',
      '/things',
      '/token',
      '/things',
    ]);
    for (const text of [result.stdout, result.stderr, ...service.files()]) {
      expect(text).not.toContain('17320508');
      expect(text).not.toContain('14142135');
    }
  });

  it('ends where the client gets no token, in the words of the service', async () => {
    const service = await describedService({
      definition,
      credentials,
      respond: () => ({
        status: 401,
        body: { error: 'invalid_client', error_description: `no ${credentials.secret}` },
      }),
    });
    const { code, stdout, stderr } = await service.cli('sync');
    expect(code).toBe(4);
    expect(stdout + stderr).toContain('gives the client no access token (invalid_client: no [secret])');
    expect(service.requests.map(({ path }) => path)).toEqual(['/token']);
  });
});
