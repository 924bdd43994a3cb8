import type { Dispatcher } from 'undici';

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

/** A 2xx answer whose body somebody has read. */
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
 * Lets `receive` read the body of an answer at its own pace. Throws the connection's error where that ended the reading, whatever
 * `receive` made of it, and `ReceiverError` for anything else. The body is closed in any case.
 */
export async function receiveBody<T>(
  response: Dispatcher.ResponseData<unknown>,
  receive: ReceiveBody<T>,
  signal: AbortSignal,
): Promise<Received<T>> {
  const { statusCode: status, headers, body } = response;
  const head = (name: string): string | null => {
    const value = headers[name];
    return (typeof value === 'string' ? value : value?.[0]) ?? null;
  };
  let wireBytes = 0;
  const cut: unknown[] = [];
  // A body that nobody reads to its end is destroyed below, and says so to whoever listens.
  body.on('error', () => undefined);

  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of body) {
        // `as`: a body without an encoding set yields Buffers.
        const bytes = chunk as Uint8Array;
        wireBytes += bytes.byteLength;
        yield bytes;
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
