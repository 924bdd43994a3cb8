import { addAbortSignal, Readable } from 'node:stream';
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { SyncError } from '../core/errors.ts';
import { nullIfAbsent, type OpenS3Client } from './s3-client.ts';

interface ObjectPlace {
  readonly Bucket: string;
  readonly Key: string;
}

/** Connections in a row that may end without a byte. */
const maxEmpty = 3;

/** An object, piece by piece; nothing where there is none. Rejects with TARGET_FAILED. */
export async function* streamObject(s3: OpenS3Client, at: ObjectPlace): AsyncIterable<Uint8Array> {
  try {
    yield* piecesOf(s3, at);
  } catch (error) {
    nullIfAbsent(error);
  }
}

/**
 * A connection that breaks is made again from the next byte on, of the same object. Where there is none, it rejects.
 */
async function* piecesOf(s3: OpenS3Client, at: ObjectPlace): AsyncIterable<Uint8Array> {
  const { sdk, client, ask, signal } = s3;
  let read = 0;
  let bytes = Infinity;
  let etag: string | undefined;
  for (let empty = 0; read < bytes;) {
    const from = read === 0 ? {} : { Range: `bytes=${read}-`, IfMatch: etag };
    const input = new sdk.GetObjectCommand({ ...at, ...from });
    const found: GetObjectCommandOutput = await ask('read', at.Key, (how) => client.send(input, how));
    const { Body, ContentLength, ETag } = found;
    if (ContentLength === undefined) throw withoutLength(at);
    if (read === 0) [bytes, etag] = [ContentLength, ETag];
    if (!(Body instanceof Readable) || ContentLength !== bytes - read) throw notAsAsked(at);
    addAbortSignal(signal, Body);
    empty += 1;
    let failure: unknown = endedEarly(at);
    try {
      for await (const piece of Body as AsyncIterable<Uint8Array>) {
        read += piece.length;
        if (piece.length > 0) empty = 0;
        yield piece;
      }
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
    if (read < bytes && empty === maxEmpty) throw s3.toError(failure, 'read', at.Key);
  }
}

/** What is read into memory as a whole is a text of this program. */
const maxTextBytes = 64 * 1024 * 1024;

export async function readObject(s3: OpenS3Client, at: ObjectPlace): Promise<Buffer | null> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const piece of piecesOf(s3, at)) {
      bytes += piece.length;
      if (bytes > maxTextBytes) throw tooLong(at);
      pieces.push(piece);
    }
  } catch (error) {
    return nullIfAbsent(error);
  }
  return Buffer.concat(pieces);
}

function endedEarly({ Bucket, Key }: ObjectPlace): SyncError {
  return new SyncError(
    `Could not read s3://${Bucket}/${Key}: ${maxEmpty} answers ended before the object did.`,
    { code: 'TARGET_FAILED', recovery: 'retry' },
  );
}

/** How much is missing when a connection breaks could not be told. */
function withoutLength({ Bucket, Key }: ObjectPlace): SyncError {
  return new SyncError(
    `Could not read s3://${Bucket}/${Key}: the answer does not say how long the object is (Content-Length). Check \`endpoint\`, and whether a proxy on the way changes answers.`,
    { code: 'TARGET_FAILED', recovery: 'stop' },
  );
}

function notAsAsked({ Bucket, Key }: ObjectPlace): SyncError {
  return new SyncError(
    `Could not read s3://${Bucket}/${Key}: expected the bytes that were asked for and their number, got something else. Check \`endpoint\`.`,
    { code: 'TARGET_FAILED', recovery: 'stop' },
  );
}

function tooLong({ Bucket, Key }: ObjectPlace): SyncError {
  return new SyncError(
    `Expected at most ${maxTextBytes} bytes in s3://${Bucket}/${Key}, got more: this program did not write it. Remove it, or choose another \`prefix\`.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}
