import { isAscii, isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

const gunzipBytes = promisify(gunzip);
/** Takes a byte order mark away. */
const utf8 = new TextDecoder('utf-8');

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** One attempt took longer than it may take in all, or its body came too slowly. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeoutError';
}

/** A body that arrived but cannot be read as text. */
export class UnreadableBodyError extends Error {
  override readonly name = 'UnreadableBodyError';
  readonly fault: 'too-large' | 'invalid';

  constructor(fault: 'too-large' | 'invalid', message: string) {
    super(message);
    this.fault = fault;
  }
}

/**
 * The bytes of a whole body, which are UTF-8. gzip is asked for because pages of records shrink 5-10 times on the wire
 * for about 2 us a record; it is inflated here, by one call that stops at `maxBytes` (undici's own decompression has no
 * limit). Throws `UnreadableBodyError`.
 */
export async function readBody(
  wire: Uint8Array,
  contentEncoding: string | null,
  maxBytes: number,
): Promise<Buffer> {
  const { buffer, byteOffset, byteLength } = await inflate(wire, contentEncoding, maxBytes);
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  if (!isUtf8(bytes)) throw new UnreadableBodyError('invalid', 'expected UTF-8, got other bytes');
  return bytes;
}

/** What `readBody` has read. ASCII is only copied, which takes a third of the time. */
export function textOfBody(bytes: Buffer): string {
  return isAscii(bytes) ? bytes.toString('latin1') : utf8.decode(bytes);
}

/**
 * A name for a body of HTML or XML in place of JSON, such as the page of a proxy, with the content type that came.
 * Null for another body.
 */
export function pageIn(
  body: Buffer,
  header: (name: string) => string | null,
  redact: (text: string) => string,
): string | null {
  return /^[\uFEFF\s]*</.test(body.toString('utf8', 0, 1_024))
    ? `a page (HTML or XML) ${mediaType(header('content-type'), redact)}; something else may answer at this address`
    : null;
}

/** For a message: the content type that came, without its parameters. */
export function mediaType(contentType: string | null, redact: (text: string) => string): string {
  const type = redact(contentType?.split(';')[0]?.slice(0, 100) ?? '').trim();
  return type === '' ? 'without a content type' : `of the type ${type}`;
}

async function inflate(
  wire: Uint8Array,
  contentEncoding: string | null,
  maxBytes: number,
): Promise<Uint8Array> {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') {
    if (wire.byteLength > maxBytes) throw tooLarge(maxBytes);
    return wire;
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new UnreadableBodyError('invalid', 'expected gzip or no content encoding, got another one');
  }
  try {
    return await gunzipBytes(wire, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(maxBytes);
    throw new UnreadableBodyError('invalid', 'the gzip body is cut or damaged');
  }
}

function tooLarge(maxBytes: number): UnreadableBodyError {
  return new UnreadableBodyError('too-large', `expected at most ${maxBytes} bytes, got more`);
}
