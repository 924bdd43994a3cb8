import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { expect, it, describe, afterEach, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import { Secret } from '../../src/core/secret.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import {
  dispositionName,
  openWire,
  readBody,
  textOfBody,
  UnreadableBodyError,
  networkFaultOf,
} from '../../src/http/exchange.ts';
import { guardedLookup, isPublicAddress } from '../../src/http/guard-address.ts';
import { hasProxies, proxyFor, proxySecrets } from '../../src/http/proxies.ts';
import { openReceivers } from '../../src/notify/channels.ts';
import { testNotice, type MessageChannel } from '../../src/notify/notice.ts';
import { openS3Client } from '../../src/publish/s3-store.ts';
import { defaultApiLimits } from '../../src/source/api/api-limits.ts';
import { openAuthorization } from '../../src/upstream/authorization.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';
import { fakeBucket, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { failureOf, openTestClient } from '../support/source/open-test-source.ts';
import { startThirdParty } from '../support/third-party/start-third-party.ts';

it.each([
  [null, null],
  ['', null],
  ['attachment', null],
  ['attachment; filename=plain.txt', 'plain.txt'],
  ['attachment; filename="with space.txt"', 'with space.txt'],
  [String.raw`attachment; filename="a\"b\\c.txt"`, String.raw`a"b\c.txt`],
  ['attachment; filename="fallback.txt"; filename*=UTF-8\'\'%e2%82%ac%20rates.txt', '€ rates.txt'],
  ["attachment; filename*=UTF-8'de'Gr%C3%B6%C3%9Fe.txt; filename=x", 'Größe.txt'],
  ["attachment; filename*=iso-8859-1''Gr%f6%dfe.txt", 'Größe.txt'],
  ["attachment; filename*=utf-16''%00a; filename=b", 'b'],
  ["attachment; filename*=UTF-8''%ff%fe; filename=b", 'b'],
  ["attachment; filename*=UTF-8''%zz.txt", '%zz.txt'],
  ['attachment; filename=""', null],
  ['attachment; FileName = upper.txt', 'upper.txt'],
  // UTF-8 bytes as a header carries them.
  [`attachment; filename="${Buffer.from('Größe.txt').toString('latin1')}"`, 'Größe.txt'],
  ['attachment; filename="Gr\u00f6\u00dfe.txt"', 'Größe.txt'],
  ['attachment; filename="../../etc/passwd"', '../../etc/passwd'],
])('%j names %j', (header, name) => {
  expect(dispositionName(header)).toBe(name);
});

it('cuts a long name, and finds none in what never ends', () => {
  expect(dispositionName(`attachment; filename="${'a'.repeat(5_000)}"`)).toBe('a'.repeat(1_000));
  expect(dispositionName(`attachment; filename="${'\\'.repeat(16_000)}`)).toBeNull();
  expect(dispositionName(`attachment; ${'filename="'.repeat(1_600)}`)).not.toContain(';');
});

const plainGet = { method: 'GET', headers: {}, body: null, timeoutMs: 5_000, maxBodyBytes: 1_000 } as const;

describe('an address of the public internet', () => {
  it.each(
    (
      '93.184.216.34 172.15.255.255 172.32.0.1 192.167.1.1 100.63.0.1 223.255.255.1 ' +
      '2606:2800:220:1:248:1893:25c8:1946 ::ffff:93.184.216.34 64:ff9b::93.184.216.34'
    ).split(' '),
  )('is %s', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each(
    (
      '127.0.0.1 127.8.8.8 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 ' +
      '100.64.0.1 192.0.0.8 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ' +
      '::ffff:7f00:1 ::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe fe80::1 fec0::1 ' +
      'fc00::1 fd00:ec2::254 ff02::1 2002:7f00:1:: 2001::1 2001:db8::1 100::1 64:ff9b:1::1 localhost'
    ).split(' '),
  )('is not %s', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

describe('the text of a body', () => {
  it.each([
    ['ASCII', 'plain text'],
    ['Latin letters', 'Łódź, bücher'],
    ['letters of two code units', 'a 😀 b'],
    ['nothing', ''],
  ])('is read whole: %s', async (_, text) => {
    expect(textOfBody(await readBody(new TextEncoder().encode(text), null, 1_000))).toBe(text);
  });

  it('is only that part of the memory that it fills', async () => {
    const memory = new TextEncoder().encode('before{"a":1}behind');
    expect(textOfBody(await readBody(memory.subarray(6, 13), null, 1_000))).toBe('{"a":1}');
  });

  it('leaves a byte order mark out', async () => {
    expect(textOfBody(await readBody(Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d), null, 1_000))).toBe('{}');
  });

  it.each([
    ['a cut letter', Uint8Array.of(0x61, 0xc5)],
    ['ISO 8859-1', Uint8Array.of(0x62, 0xfc, 0x63)],
  ])('is refused where it is no UTF-8: %s', async (_, bytes) => {
    await expect(readBody(bytes, null, 1_000)).rejects.toThrow(UnreadableBodyError);
  });
});

describe('proxies', () => {
  const never = new AbortController().signal;
  const spellings = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'no_proxy', 'NO_PROXY'];

  afterEach(() => vi.unstubAllEnvs());

  /** Leads each tunnel to one port of this machine, or answers with `status`. */
  async function startProxy(to: number, status = 200) {
    const asked: string[] = [];
    const server = createHttpServer().on('connect', (request, socket) => {
      asked.push(`${request.url ?? ''} ${request.headers['proxy-authorization'] ?? ''}`.trim());
      socket.on('error', () => undefined);
      if (status !== 200) return void socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`);
      const far = connect(to, '127.0.0.1').on('error', () => socket.destroy());
      socket.on('close', () => far.destroy());
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(far).pipe(socket);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    return { asked, url: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}` };
  }

  function useProxies(given: Readonly<Record<string, string>>): void {
    for (const name of spellings) vi.stubEnv(name, given[name]);
  }

  /** Sends as a direct connector does, and as webhooks and sign-ins do. `addresses`: what this machine finds. */
  async function ask(text: string, addresses: readonly string[], allowHosts: readonly string[] = []) {
    const url = new URL(text);
    await using transport = openUpstreamTransport({
      allowHosts,
      resolve: (_name, done) =>
        addresses.length === 0
          ? done(Object.assign(new Error('none'), { code: 'ENOTFOUND' }), [])
          : done(
              null,
              addresses.map((address) => ({ address, family: 4 })),
            ),
    });
    try {
      const answer = await transport.send({ ...plainGet, url, base: url, namedBy: 'definition' }, never);
      return answer.body.toString();
    } catch (error) {
      return networkFaultOf(error);
    }
  }

  describe('a call', () => {
    it.each(['http_proxy', 'HTTP_PROXY'])(
      'goes through the proxy that %s names, with its credentials',
      async (name) => {
        const service = await startThirdParty(() => ({ body: 'hello' }));
        const proxy = await startProxy(service.port);
        useProxies({ [name]: proxy.url.replace('//', '//user:p%40ss@') });
        // Names that only the proxy resolves are its affair.
        expect(await ask('http://service.example/a', [], ['service.example'])).toBe('hello');
        expect(proxy.asked).toEqual([`service.example:80 Basic ${btoa('user:p@ss')}`]);
      },
    );

    it.each(['no_proxy', 'NO_PROXY'])('goes straight to a host that %s names', async (name) => {
      const service = await startThirdParty(() => ({ body: 'hello' }));
      const proxy = await startProxy(service.port);
      useProxies({ HTTP_PROXY: proxy.url, [name]: 'other.example, .service.example' });
      const url = `http://a.service.example:${service.port}/`;
      expect(await ask(url, ['127.0.0.1'], ['a.service.example'])).toBe('hello');
      expect(proxy.asked).toEqual([]);
    });

    it.each([
      ['a literal address', 'https://10.0.0.1/', []],
      ['a name that leads to one here', 'https://inside.example/', ['93.184.216.34', '10.0.0.1']],
    ])('to a private address is refused behind a proxy too: %s', async (_what, url, addresses) => {
      const proxy = await startProxy(1);
      useProxies({ HTTPS_PROXY: proxy.url });
      expect(await ask(url, addresses)).toMatchObject({ kind: 'address' });
      expect(proxy.asked).toEqual([]);
    });

    it('looks a name up once for many calls', async () => {
      const service = await startThirdParty(() => ({ body: 'hello' }));
      const proxy = await startProxy(service.port);
      useProxies({ http_proxy: proxy.url });
      const found: string[] = [];
      const wire = openWire(
        defaultApiLimits,
        guardedLookup(
          () => undefined,
          (name, done) => {
            found.push(name);
            done(new Error('none here'), []);
          },
        ),
      );
      onTestFinished(async () => await wire[Symbol.asyncDispose]());
      const url = new URL('http://service.example/');
      for (let call = 0; call < 3; call += 1) {
        expect(await wire.send({ ...plainGet, url }, never)).toMatchObject({ status: 200 });
      }
      expect(found).toEqual(['service.example']);
    });

    it('names the proxy that refuses it, and one that is not there', async () => {
      const proxy = await startProxy(1, 407);
      useProxies({ https_proxy: proxy.url });
      const text = `the proxy ${proxy.host} answered HTTP 407`;
      expect(await ask('https://service.example/', [])).toMatchObject({ kind: 'other', text });
      expect(proxy.asked).toEqual(['service.example:443']);
      useProxies({ https_proxy: 'http://127.0.0.1:1' });
      expect(await ask('https://service.example/', [])).toMatchObject({
        text: 'connection refused (ECONNREFUSED), through the proxy 127.0.0.1:1',
      });
    });

    it('to the API goes through the proxy', async () => {
      const proxy = await startProxy(1, 407);
      useProxies({ HTTPS_PROXY: proxy.url });
      await using client = openTestClient('https://api.example', { limits: { retries: 0 } });
      const { message } = await failureOf(client.definitions(null, never));
      expect(message).toContain(`the proxy ${proxy.host} answered HTTP 407`);
      expect(proxy.asked).toEqual(['api.example:443']);
    });

    it('of a sign-in goes through the proxy', async () => {
      const proxy = await startProxy(1, 407);
      useProxies({ HTTPS_PROXY: proxy.url });
      const folder = new URL('../fixtures/definitions/upstream', import.meta.url).pathname;
      const [definition] = loadDefinitions([folder]).values();
      if (definition === undefined) throw new Error('expected a definition');
      await using transport = openUpstreamTransport({ allowHosts: [] });
      const { device } = openAuthorization({
        definition,
        credentials: { app: 'my-app', app_secret: 'hush', shop_name: 'shop' },
        connector: 'mine',
        transport,
        clock: systemClock,
      });
      await expect(device?.(never)).rejects.toThrow(`the proxy ${proxy.host} answered HTTP 407`);
      expect(proxy.asked).toEqual(['login.shop.example:443']);
    });

    it('to the receiver of a webhook goes through the proxy', async () => {
      const receiver = await startThirdParty(() => ({ body: 'thanks' }));
      const proxy = await startProxy(receiver.port);
      useProxies({ http_proxy: proxy.url });
      await using receivers = openReceivers(['hook.example'], systemClock);
      const channel: MessageChannel = {
        type: 'webhook',
        name: 'ops',
        url: new Secret('http://hook.example/notify'),
        format: 'json',
        secret: null,
        connectors: [],
        kinds: [],
      };
      const notice = testNotice(channel, '2026-01-01T00:00:00.000Z');
      expect(await receivers.webhook(channel, notice, never)).toEqual({ kind: 'delivered' });
      expect(proxy.asked).toEqual(['hook.example:80']);
      expect(receiver.requests.map(({ path }) => path)).toEqual(['/notify']);
    });

    it('to a bucket goes through the proxy', async () => {
      await using s3 = await startFakeS3();
      const proxy = await startProxy(Number(new URL(s3.endpoint).port));
      useProxies({ http_proxy: proxy.url.replace('//', '//user:pw@') });
      const place = { ...fakePlace(s3.endpoint), endpoint: 'http://bucket.example:9000' };
      const { sdk, ask: send, close } = await openS3Client(place, { signal: never, idleTimeoutMs: 5_000 });
      await send('list', new sdk.ListObjectsV2Command({ Bucket: fakeBucket }));
      close();
      expect(proxy.asked).toEqual([`bucket.example:9000 Basic ${btoa('user:pw')}`]);
    });

    it('to a bucket with a host of its own goes through the proxy of that host', async () => {
      await using s3 = await startFakeS3();
      const proxy = await startProxy(Number(new URL(s3.endpoint).port));
      const host = `${fakeBucket}.s3.example`;
      vi.stubEnv('AWS_ENDPOINT_URL_S3', 'http://s3.example:9000');
      const list = async (without: string): Promise<unknown> => {
        useProxies({ http_proxy: proxy.url, no_proxy: without });
        const place = { ...fakePlace(s3.endpoint), endpoint: null, region: 'us-east-1' };
        const { sdk, ask: send, close } = await openS3Client(place, { signal: never, idleTimeoutMs: 5_000 });
        await send('list', new sdk.ListObjectsV2Command({ Bucket: fakeBucket })).catch(() => undefined);
        close();
        return proxy.asked.splice(0);
      };
      expect(await list('other.s3.example')).toContain(`${host}:9000`);
      expect(await list(host)).toEqual([]);
    });
  });

  it.each([
    ['https://a.example/', { HTTPS_PROXY: 'http://p:1', HTTP_PROXY: 'http://q:1' }, 'p:1'],
    ['https://a.example/', { HTTP_PROXY: 'http://q:1' }, 'q:1'],
    ['http://a.example/', { HTTPS_PROXY: 'http://p:1' }, null],
    ['https://a.example/', { HTTPS_PROXY: 'http://p:1', https_proxy: 'http://r:1' }, 'r:1'],
    ['https://a.example/', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '*' }, null],
    ['https://a.example/', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'a.example:8443' }, 'p:1'],
    ['https://a.example:8443/', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'a.example:8443' }, null],
    ['https://notexample.com/', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'example.com' }, 'p:1'],
    ['https://A.Example.com/', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'b.example *.EXAMPLE.com' }, null],
    ['http://localhost:8787/', { HTTP_PROXY: 'http://p:1' }, null],
    ['http://127.0.0.1:8787/', { HTTP_PROXY: 'http://p:1', NO_PROXY: 'a.example' }, null],
    ['http://[::1]:8787/', { HTTP_PROXY: 'http://p:1' }, null],
  ])('%s with %o is asked for through %s', (url, env, host) => {
    expect(proxyFor(new URL(url), env)?.host ?? null).toBe(host);
  });

  it('an address of a proxy with a password is a secret, and one that is none is refused without it', () => {
    const env = { HTTPS_PROXY: 'http://user:hidden-27182@p:1', http_proxy: 'http://q:1' };
    expect(proxySecrets(env).map((secret) => secret.reveal())).toEqual(['http://user:hidden-27182@p:1']);
    const wrong = vi.fn(() => hasProxies({ HTTPS_PROXY: 'user:hidden-27182@p:1' }));
    expect(wrong).toThrow(SyncError);
    expect(wrong).toThrow('HTTPS_PROXY: expected the address of a proxy');
    expect(wrong).not.toThrow('27182');
  });
});
