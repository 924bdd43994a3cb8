import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  failureOf,
  listOf,
  never,
  openTestAccount,
  requestOf,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty, type Reply } from '../support/third-party/start-third-party.ts';

const small = listOf(requestOf('/items', {}, { maxBodyBytes: 100_000 }));
const impatient = listOf(requestOf('/items', {}, { timeoutMs: 400 }));
const list = { entity: things, params: {} };

async function listFrom(reply: Reply, request = small): Promise<ReturnType<typeof failureOf>> {
  const server = await startThirdParty(() => reply);
  const account = openTestAccount({ baseUrl: server.origin, list: request });
  const failure = await failureOf(account.list(list, never));
  expect(failure.text.length).toBeLessThan(400);
  return failure;
}

const records = (count: number): string =>
  JSON.stringify({ items: Array.from({ length: count }, () => ({ id: 1 })) });
const gzip = { 'content-encoding': 'gzip' };

describe('a body', () => {
  it('is read from gzip, asked for or not, and from an error too', async () => {
    const server = await startThirdParty((_request, index) =>
      index === 0
        ? { headers: gzip, body: gzipSync(records(3)) }
        : { status: 403, headers: gzip, body: gzipSync('{"detail":"your role may not"}') },
    );
    const account = openTestAccount({ baseUrl: server.origin, list: small });
    expect((await account.list(list, never)).records).toHaveLength(3);
    expect(await failureOf(account.list(list, never))).toMatchObject({ text: 'your role may not' });
  });

  it('may not be larger than its limit', async () => {
    expect(await listFrom({ body: records(20_000) })).toMatchObject({
      class: 'tooLarge',
      reason: 'tooLarge',
    });
  });

  it('may not be larger than its limit where its length is not announced', async () => {
    const failure = await listFrom((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"items":[');
      response.end(records(20_000));
    });
    expect(failure).toMatchObject({ class: 'tooLarge' });
  });

  it('may not become larger than its limit when it is decompressed', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, 0x20));
    expect(bomb.length).toBeLessThan(100_000);
    expect(await listFrom({ headers: gzip, body: bomb })).toMatchObject({ class: 'tooLarge' });
  });

  it('without an end is cut at the limit', async () => {
    const failure = await listFrom((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(10_000, 0x20)));
      };
      response.on('drain', more);
      more();
    });
    expect(failure).toMatchObject({ class: 'tooLarge' });
  });

  it.each(['200', '403'])(
    'that comes too slowly ends with the time of the whole call, with HTTP %s',
    async (status) => {
      const timers: NodeJS.Timeout[] = [];
      const failure = await listFrom((response) => {
        response.writeHead(Number(status), { 'content-type': 'application/json' });
        timers.push(setInterval(() => response.write(' '), 20));
      }, impatient);
      timers.forEach(clearInterval);
      expect(failure).toMatchObject({ class: 'unavailable', reason: 'timeout' });
    },
  );

  it('that does not begin ends with the time of the call', async () => {
    expect(await listFrom(() => undefined, impatient)).toMatchObject({
      class: 'unavailable',
      reason: 'timeout',
    });
  });

  it.each([
    ['cut JSON', { body: '{"items":[{"id":1}' }, 'unavailable', 'brokenBody'],
    [
      'cut gzip',
      { headers: gzip, body: gzipSync(records(9_000)).subarray(0, 60) },
      'unavailable',
      'brokenBody',
    ],
    [
      'an encoding that was not asked for',
      { headers: { 'content-encoding': 'br' }, body: 'x' },
      'unavailable',
      'brokenBody',
    ],
    ['bytes that are no UTF-8', { body: Buffer.from([0x22, 0xff, 0x22]) }, 'unavailable', 'brokenBody'],
    [
      'HTML',
      { headers: { 'content-type': 'text/html' }, body: '<p>Log in to the hotel' },
      'unavailable',
      'notJson',
    ],
    ['other text', { headers: { 'content-type': 'text/csv' }, body: 'id,name' }, 'unavailable', 'notJson'],
    [
      'JSON of 100,000 levels',
      { body: `{"items":${'['.repeat(49_000)}${']'.repeat(49_000)}}` },
      'tooLarge',
      'tooLarge',
    ],
    [
      'headers of 100 KB',
      { headers: { 'x-long': 'x'.repeat(100_000) }, body: records(1) },
      'tooLarge',
      'tooLarge',
    ],
  ])('with %s is not used', async (_what, reply, failureClass, reason) => {
    expect(await listFrom(reply)).toMatchObject({ class: failureClass, reason });
  });

  it.each(['text/plain', 'text/html', 'application/octet-stream', 'application/x-json', ''])(
    'is JSON with the content type "%s" too',
    async (type) => {
      const server = await startThirdParty(() => ({ headers: { 'content-type': type }, body: records(2) }));
      const account = openTestAccount({ baseUrl: server.origin, list: small });
      expect((await account.list(list, never)).records).toHaveLength(2);
    },
  );

  it.each([
    ['text/html; charset=utf-8', 'of the type text/html'],
    ['application/json', 'of the type application/json'],
    ['', 'without a content type'],
    [`text/x-${'a1'.repeat(20)}`, 'of the type text/[redacted]'],
  ])('that is a page is named as one, with the content type "%s"', async (type, named) => {
    const page = '\uFEFF\n <!doctype html><title>[[[</title>';
    expect(await listFrom({ headers: { 'content-type': type }, body: page })).toMatchObject({
      reason: 'notJson',
      text: `expected JSON, got a page (HTML or XML) ${named}; something else may answer at this address`,
    });
  });

  it('may hold brackets in its texts, and records of 200 levels', async () => {
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`;
    const body = String.raw`{"items":[{"text":"\"${'['.repeat(1_000)}\\","deep":${deep}}]}`;
    const server = await startThirdParty(() => ({
      headers: { 'content-type': 'application/vnd.api+json; charset=utf-8' },
      body,
    }));
    const account = openTestAccount({ baseUrl: server.origin });
    expect((await account.list(list, never)).records).toHaveLength(1);
  });
});
