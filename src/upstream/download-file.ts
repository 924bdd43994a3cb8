import { createGunzip } from 'node:zlib';
import { pipeline, Readable } from 'node:stream';
import type { DownloadRequest } from '../definitions/upstream/upstream.ts';
import { type WireStream, dispositionName } from '../http/exchange.ts';
import { AddressRefusedError } from '../http/guard-address.ts';
import { askForFile, askForJson, redirectOf, type Asked } from './ask-upstream.ts';
import { failureOfError, readFailure } from './read-failure.ts';
import { valueAt } from './read-json.ts';
import type { Session } from './session.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

export type UpstreamFile = ReturnType<typeof fileOf>;

const mostHops = 5;

/**
 * The file of a record. Where the service's answer leads elsewhere, by a redirect or an address in its JSON, that is
 * followed without credentials, to the service's own origin and to public addresses only. Rejects with
 * `UpstreamFailure`, and with the signal's reason.
 */
export async function downloadFile(
  asked: Asked,
  { url: path }: Pick<DownloadRequest, 'url'>,
  session: Session,
  signal: AbortSignal,
): Promise<UpstreamFile> {
  if (path !== null) {
    const answer = await askForJson(asked, session, signal);
    const address = valueAt(answer.value, path);
    if (typeof address !== 'string' || !URL.canParse(address)) {
      throw brokenAnswer(`${answer.url.host} names no address of the file`, answer.status);
    }
    return await followTo(new URL(address), answer.url, asked, session, signal);
  }
  const found = await askForFile(asked, session, signal);
  return 'read' in found
    ? fileOf(found, 'the service')
    : await followTo(found.url, found.base, asked, session, signal);
}

async function followTo(
  start: URL,
  base: URL,
  asked: Asked,
  session: Session,
  signal: AbortSignal,
): Promise<UpstreamFile> {
  let url = start;
  for (let hop = 0; hop < mostHops; hop += 1) {
    const { timeoutMs, maxBodyBytes } = asked.request;
    const headers = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'connector-sync' };
    try {
      const answer = await session.transport.open(
        { url, base, namedBy: 'answer', method: 'GET', headers, body: null, timeoutMs, maxBodyBytes },
        signal,
      );
      if ('read' in answer) return fileOf(answer, url.host);
      const next = redirectOf(answer, url);
      if (next === null) {
        // Not by the service's rules: this is another host. What it says may repeat the signed address.
        const rules = { ...session.upstream, errors: [], message: [], failed: null };
        const { entity } = asked;
        throw readFailure(rules, answer, { entity, host: url.host, secrets: [], now: session.clock.now() });
      }
      url = next;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AddressRefusedError) throw notFollowed(error);
      throw failureOfError(error, url.host) ?? error;
    }
  }
  const text = `the address of the file redirects more than ${mostHops} times`;
  throw new UpstreamFailure('refused', text, { reason: 'redirect' });
}

/** Not `address`, which ends a run and advises to allow the host: one record's file must not be able to do either. */
function notFollowed({ message }: AddressRefusedError): UpstreamFailure {
  const text = `${message}; the address of a file must be public, or the service's own`;
  return new UpstreamFailure('refused', text, { reason: 'otherOrigin' });
}

function fileOf(stream: WireStream, host: string) {
  const encoding = stream.header('content-encoding')?.trim().toLowerCase() ?? '';
  const isPlain = encoding === '' || encoding === 'identity';
  if (stream.status !== 200 || (!isPlain && encoding !== 'gzip' && encoding !== 'x-gzip')) {
    stream.close();
    // 206 is a part that was not asked for, 202 a file that does not exist yet.
    const why = stream.status === 200 ? 'an unknown content encoding' : `HTTP ${stream.status}`;
    throw brokenAnswer(`expected a whole file from ${host}, got ${why}`, stream.status);
  }
  const length = stream.header('content-length') ?? '';
  return {
    /** As the service names it: hostile. Null where it does not. */
    name: dispositionName(stream.header('content-disposition')),
    contentType: stream.header('content-type'),
    /** In bytes; null: not known before the end. */
    size: isPlain && /^\d{1,15}$/.test(length) ? Number(length) : null,
    /**
     * To be called once. Ends behind the last byte; throws `UpstreamFailure` where the file is cut or comes too slowly.
     */
    async *read(signal: AbortSignal): AsyncGenerator<Uint8Array> {
      try {
        const bytes = stream.read(signal);
        yield* isPlain ? bytes : inflated(bytes);
      } catch (error) {
        signal.throwIfAborted();
        throw failureOfError(error, host) ?? error;
      }
    },
    /** Frees the connection of a file that is not read to its end. Idempotent. */
    close: (): void => stream.close(),
  };
}

function inflated(bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  // What ends the reading is thrown by the iteration below; the callback would hear of it a second time.
  return pipeline(Readable.from(bytes), createGunzip(), () => undefined);
}
