import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import type { HealthSources } from '../../src/monitor/start-monitor.ts';
import { openMetrics } from '../../src/telemetry/metrics.ts';
import { freePort } from '../support/redis.ts';
import { seriesIn } from '../support/monitor/prometheus-text.ts';
import { serveMonitor } from '../support/monitor/served-monitor.ts';
import { Secret } from '../../src/core/secret.ts';
import { parseListenAddress } from '../../src/monitor/listen-address.ts';
import { openTokenCheck, tokensOf } from '../../src/monitor/page-access.ts';
import { instantClock } from '../support/instant-clock.ts';

const well: HealthSources = {
  worker: () => Promise.resolve({ isReady: true, problems: [] }),
  sinks: () => Promise.resolve([{ name: 'warehouse', problem: null }]),
};

describe('the endpoints', () => {
  it('report that the process is alive', async () => {
    await using served = await serveMonitor();
    const { status, body } = await served.get('/healthz');
    expect([status, JSON.parse(body)]).toEqual([200, { status: 'ok' }]);
  });

  it('serve the metrics with their content type', async () => {
    const metrics = openMetrics({ version: '1.2.3', sample: () => Promise.reject(new Error('none')) });
    await using served = await serveMonitor({ metrics: () => metrics.text() });
    const { status, body, headers } = await served.get('/metrics');
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    expect(seriesIn(body).get('connector_sync_scrape_errors_total')).toBe(1);
  });

  it('hide internal errors from the response, and log them', async () => {
    await using served = await serveMonitor({ metrics: () => Promise.reject(new Error('the inside')) });
    const { status, body } = await served.get('/metrics');
    expect(status).toBe(500);
    expect(body).not.toContain('inside');
    expect(served.logged).toMatchObject([{ level: 'error', facts: { page: '/metrics' } }]);
  });

  it('answer GET and HEAD only', async () => {
    await using served = await serveMonitor();
    expect(await served.get('/healthz', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' });
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      for (const path of ['/healthz', '/readyz/pause', '/nowhere']) {
        const { status, headers } = await served.get(path, { method });
        expect([method, path, status, headers.allow]).toEqual([method, path, 405, 'GET, HEAD']);
      }
    }
  });

  it('cannot be framed, sniffed, cached or read from another origin', async () => {
    await using served = await serveMonitor();
    for (const path of ['/healthz', '/metrics', '/nowhere']) {
      const { headers } = await served.get(path, { headers: { origin: 'https://evil.example' } });
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'no-referrer',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
      });
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});

describe('what a newer config changes', () => {
  it('is shown behind the same port, which answers all the time', async () => {
    await using served = await serveMonitor({ hosts: ['old.example.com'] });
    const asked = async (host: string): Promise<number> =>
      (await served.get('/healthz', { headers: { host } })).status;
    const shown = new AbortController();
    const asking = (async () => {
      const seen: number[] = [];
      while (!shown.signal.aborted) seen.push(await asked('127.0.0.1'));
      return seen;
    })();
    expect([await asked('old.example.com'), await asked('new.example.com')]).toEqual([200, 421]);
    await served.monitor.show({ hosts: ['new.example.com'] });
    expect([await asked('old.example.com'), await asked('new.example.com')]).toEqual([421, 200]);
    shown.abort();
    expect(new Set(await asking)).toEqual(new Set([200]));
  });
});

describe('readiness', () => {
  it("reports the worker's problems and the names of failing sinks, with details in the log", async () => {
    let health: HealthSources = well;
    await using served = await serveMonitor({
      health: { worker: () => health.worker(), sinks: () => health.sinks() },
    });
    expect(await served.get('/readyz')).toMatchObject({ status: 200, body: '{"status":"ok","problems":[]}' });
    health = {
      worker: () => Promise.resolve({ isReady: false, problems: ['Redis does not answer'] }),
      sinks: () => Promise.resolve([{ name: 'lake', problem: 'EACCES: /srv/private/lake' }]),
    };
    for (const _ of [1, 2]) {
      const { status, body } = await served.get('/readyz');
      expect(status).toBe(503);
      expect(JSON.parse(body)).toEqual({
        status: 'unavailable',
        problems: ['Redis does not answer', 'sink lake cannot be used; the log says why'],
      });
    }
    health = well;
    expect((await served.get('/readyz')).status).toBe(200);
    expect(served.logged.map(({ message }) => message)).toEqual(['not ready', 'ready again']);
    expect(JSON.stringify(served.logged[0]?.facts)).toContain('/srv/private/lake');
  });

  it.each<[string, Partial<HealthSources>]>([
    ['the worker fails', { worker: () => Promise.reject(new Error('the inside')) }],
    ['the worker throws', { worker: fail }],
    ['the sinks throw', { sinks: fail }],
  ])('is 503 without the reason when asking %s', async (_who, part) => {
    await using served = await serveMonitor({ health: { ...well, ...part } });
    const { status, body } = await served.get('/readyz');
    expect(status).toBe(503);
    expect(body).not.toContain('inside');
  });

  it('changes to 503 in time where the worker does not answer, while the process stays alive', async () => {
    let { worker } = well;
    await using served = await serveMonitor({ health: { ...well, worker: () => worker() } });
    expect((await served.get('/readyz')).status).toBe(200);
    worker = () => new Promise(() => undefined);
    const askedAt = performance.now();
    const answers = await Promise.all([served.get('/readyz'), served.get('/readyz')]);
    expect(performance.now() - askedAt).toBeLessThan(2000);
    expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    expect((await served.get('/healthz')).status).toBe(200);
  });
});

function fail(): never {
  throw new Error('the inside');
}

describe('where it listens', () => {
  it('answers only for loopback names on a loopback address', async () => {
    await using served = await serveMonitor();
    for (const host of ['127.0.0.1', 'localhost:9400', 'LOCALHOST', '[::1]:1']) {
      expect([host, (await served.get('/healthz', { headers: { host } })).status]).toEqual([host, 200]);
    }
    for (const host of ['evil.example', 'localhost.evil.example', '0.0.0.0']) {
      expect([host, (await served.get('/metrics', { headers: { host } })).status]).toEqual([host, 421]);
    }
  });

  it('listens on every interface without a host, and answers for any name there', async () => {
    await using served = await serveMonitor({ listen: { host: null, port: 0 } });
    expect(new URL(served.monitor.url).hostname).toBe('localhost');
    const { status } = await served.get('/healthz', { headers: { host: 'worker-1:9400' } });
    expect(status).toBe(200);
    const port = Number(new URL(served.monitor.url).port);
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.destroy();
  });

  it('names a port in use, and what may use it', async () => {
    const port = await freePort();
    await using _first = await serveMonitor({ listen: { host: '127.0.0.1', port } });
    await expect(serveMonitor({ listen: { host: '127.0.0.1', port } })).rejects.toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(String(port)) }),
    );
  });

  it('frees its port, closes idle connections, and may be closed twice', async () => {
    const served = await serveMonitor();
    const port = Number(new URL(served.monitor.url).port);
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const cut = once(socket, 'close');
    await served.monitor[Symbol.asyncDispose]();
    await served.monitor[Symbol.asyncDispose]();
    await cut;
    await using _again = await serveMonitor({ listen: { host: '127.0.0.1', port } });
  });
});

describe('slow and many clients', () => {
  it('closes the connection of a client that does not finish its headers, and serves others meanwhile', async () => {
    await using served = await serveMonitor({ limits: { headersTimeoutMs: 150, timeoutCheckMs: 50 } });
    const socket = connect(Number(new URL(served.monitor.url).port), '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ');
    const closed = once(socket, 'close');
    expect((await served.get('/healthz')).status).toBe(200);
    await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  it.each([
    ['half a request', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n'],
    ['requests that take long', 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])('answers health while other connections hold %s up to the limit', async (_what, text) => {
    let asked = 0;
    await using served = await serveMonitor({
      limits: { maxConnections: 4, maxConnectionsPerClient: 4 },
      metrics: async () => {
        asked += 1;
        return await new Promise<never>(() => undefined);
      },
    });
    const port = Number(new URL(served.monitor.url).port);
    const sockets: Socket[] = [];
    for (let held = 0; held < 10; held += 1) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      await once(socket, 'connect');
      socket.write(text);
      sockets.push(socket);
    }
    if (text.endsWith('\r\n\r\n')) await vi.waitUntil(() => asked >= 4);
    for (let probe = 0; probe < 3; probe += 1) expect((await served.get('/healthz')).status).toBe(200);
    for (const socket of sockets) socket.destroy();
  });

  it('closes connections above its limit at once', async () => {
    await using served = await serveMonitor({ limits: { maxConnections: 2 } });
    const port = Number(new URL(served.monitor.url).port);
    const sockets = Array.from({ length: 5 }, () => connect(port, '127.0.0.1'));
    await new Promise<void>((resolve) => {
      let closed = 0;
      for (const socket of sockets) {
        socket.on('error', () => undefined);
        socket.on('close', () => {
          closed += 1;
          if (closed === 3) resolve();
        });
      }
    });
    expect(sockets.filter((socket) => !socket.destroyed).length).toBe(2);
    for (const socket of sockets) socket.destroy();
  });
});

const token = 'tök€n:with:colons-0123';

const bob = { name: 'bob', may: ['pages'] } as const;
const open = (clock = instantClock()) => {
  const tokens = [
    { name: 'anna', may: ['pages', 'act'], token: new Secret('another-token-0123') },
    { ...bob, token: new Secret(token) },
  ] as const;
  return openTokenCheck({ tokens, wrongTries: 3, wrongTriesMs: 10_000, clock }).judge;
};

it('has the tokens of the config by name', () => {
  const secret = new Secret(token);
  const named = { name: 'bob', may: ['pages'], token: secret };
  const http = {
    hosts: [],
    secretsFolder: null,
    connectorSeries: 'all',
    tokens: { bob: { may: ['pages'], token: secret } },
  } as const;
  expect(tokensOf({ ...http, token: null })).toEqual([named]);
  expect(tokensOf({ ...http, token: secret })).toEqual([
    { ...named, name: 'http.token', may: ['pages', 'act'] },
    named,
  ]);
});

describe('a token', () => {
  it.each([`Bearer ${token}`, `bearer  ${token} `])('is accepted in "%s"', (header) =>
    expect(open()(header)).toEqual(bob),
  );

  it.each([
    '',
    'Bearer',
    `Basic ${Buffer.from(`user:${token}`).toString('base64')}`,
    `Bearer ${token}x`,
    `Digest ${token}`,
    token,
  ])('is not accepted in "%s"', (header) => expect(open()(header)).toBe('wrong'));

  it('is taken however many wrong ones come, which must wait until the window has passed', () => {
    const clock = instantClock();
    const check = open(clock);
    expect([1, 2, 3].map(() => check('Bearer wrong'))).toEqual(['wrong', 'wrong', 'wrong']);
    expect([check('Bearer wrong'), check(`Bearer ${token}`)]).toEqual(['too-many', bob]);
    clock.advance(10_000);
    expect(check('Bearer wrong')).toEqual('wrong');
  });

  it('does not count requests without a token, nor correct ones, as tries', () => {
    const check = open();
    for (let tries = 0; tries < 20; tries += 1) {
      expect(check(undefined)).toBe('missing');
      expect(check(`Bearer ${token}`)).toEqual(bob);
    }
  });
});

describe('the address to listen on', () => {
  it.each([
    ['9400', '127.0.0.1', 9400],
    [':9400', null, 9400],
    ['127.0.0.1:9400', '127.0.0.1', 9400],
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['[::1]:9400', '::1', 9400],
    ['[::]:9400', '::', 9400],
    ['localhost:0', 'localhost', 0],
    ['worker-1.internal:65535', 'worker-1.internal', 65_535],
  ])('reads %s', (text, host, port) => {
    expect(parseListenAddress(text)).toEqual({ host, port });
  });

  it.each([
    '',
    ':',
    'localhost',
    'localhost:',
    '65536',
    ':99999',
    '-1',
    '9400x',
    '::1:9400',
    '[::1]9400',
    '[nonsense]:1',
    '[127.0.0.1]:1',
    'a b:1',
    'http://localhost:9400',
    '-host:1',
    ' 9400',
  ])('rejects "%s" and names the accepted forms', (text) => {
    expect(() => parseListenAddress(text)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(':9400 (every interface)') }),
    );
  });
});
