import type { Dispatcher } from 'undici';
import { AttemptTimeoutError } from './read-body.ts';

/** How slowly a file may be received. */
export interface PaceLimits {
  readonly bodyTimeoutMs: number;
  /** Of a file in `bodyTimeoutMs` of waiting for it. */
  readonly leastFileBytes: number;
}

/** What a 2xx answer says of the body that follows. Each null where its header is absent. */
export interface BodyHead {
  readonly status: number;
  readonly contentType: string | null;
  readonly contentDisposition: string | null;
  readonly contentEncoding: string | null;
  readonly contentLength: string | null;
}

export type ReceiveBody<T> = (
  head: BodyHead,
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
) => Promise<T>;

/** A 2xx answer whose body was read by `receive`. */
export interface Received<T> {
  readonly kind: 'received';
  readonly value: T;
  readonly status: number;
  readonly date: string | null;
  readonly wireBytes: number;
}

/** The reader of a body failed by itself; `cause` is what it threw. The service has no part in that. */
export class ReceiverError extends Error {
  override readonly name = 'ReceiverError';

  constructor(cause: unknown) {
    super('the reader of a body failed', { cause });
  }
}

/**
 * Lets `receive` read the body of an answer at its own pace. Throws the connection's error where that ended the
 * reading, whatever `receive` made of it, `AttemptTimeoutError` where it came too slowly, and `ReceiverError` for
 * anything else. The body is closed in any case.
 */
export async function receiveBody<T>(
  response: Dispatcher.ResponseData<unknown>,
  receive: ReceiveBody<T>,
  { limits, signal }: { readonly limits: PaceLimits; readonly signal: AbortSignal },
): Promise<Received<T>> {
  const { statusCode: status, headers, body } = response;
  const head = (name: string): string | null => {
    const value = headers[name];
    return (typeof value === 'string' ? value : value?.[0]) ?? null;
  };
  let wireBytes = 0;
  const cut: unknown[] = [];
  // A body that is not read to its end is destroyed below and emits an error: ignore it.
  body.on('error', () => undefined);

  async function* chunks(): AsyncGenerator<Uint8Array> {
    const noteChunk = watchPace(limits);
    try {
      let askedAt = performance.now();
      for await (const chunk of body) {
        // `as`: a body without an encoding set yields Buffers.
        const bytes = chunk as Uint8Array;
        wireBytes += bytes.byteLength;
        noteChunk(bytes.byteLength, performance.now() - askedAt);
        yield bytes;
        askedAt = performance.now();
      }
    } catch (error) {
      cut.push(error);
      throw error;
    }
  }

  try {
    const value = await receive(
      {
        status,
        contentType: head('content-type'),
        contentDisposition: head('content-disposition'),
        contentEncoding: head('content-encoding'),
        contentLength: head('content-length'),
      },
      chunks(),
      signal,
    );
    return { kind: 'received', value, status, date: head('date'), wireBytes };
  } catch (error) {
    if (cut.length > 0) throw cut[0];
    throw new ReceiverError(error);
  } finally {
    body.destroy();
  }
}

/**
 * Is told of each chunk, and how long it was waited for; the time that the reader takes does not count. Throws
 * `AttemptTimeoutError`.
 */
export function watchPace({
  bodyTimeoutMs,
  leastFileBytes,
}: PaceLimits): (bytes: number, waitedMs: number) => void {
  let waited = 0;
  let came = 0;
  return (bytes, waitedMs) => {
    waited += waitedMs;
    came += bytes;
    if (waited < bodyTimeoutMs) return;
    if (came < leastFileBytes) {
      throw new AttemptTimeoutError(
        `expected at least ${leastFileBytes} bytes of the file in ${bodyTimeoutMs} ms, got ${came}`,
      );
    }
    waited = 0;
    came = 0;
  };
}
