import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { addAbortSignal, Readable } from 'node:stream';
import type { CompletedPart, GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { SyncError } from '../core/errors.ts';
import type { Leftover } from './object-store.ts';
import { nullIfAbsent, type OpenS3Client } from './s3-client.ts';

interface ObjectPlace {
  readonly Bucket: string;
  readonly Key: string;
}

/** Connections in a row that may end without a byte. */
const maxEmpty = 3;

const endedEarly = `${maxEmpty} answers ended before the object did.`;
const noLength =
  'the answer does not say how long the object is (Content-Length). Check `endpoint`, and whether a proxy on the way changes answers.';
const notAsAsked =
  'expected the bytes that were asked for and their number, got something else. Check `endpoint`.';

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
  const { sdk, ask, signal } = s3;
  let read = 0;
  let bytes = Infinity;
  let etag: string | undefined;
  for (let empty = 0; read < bytes;) {
    const from = read === 0 ? {} : { Range: `bytes=${read}-`, IfMatch: etag };
    const input = new sdk.GetObjectCommand({ ...at, ...from });
    const { Body, ContentLength, ETag }: GetObjectCommandOutput = await ask('read', input);
    // How much is missing when a connection breaks could not be known.
    if (ContentLength === undefined) throw unreadable(at, noLength, 'stop');
    if (read === 0) [bytes, etag] = [ContentLength, ETag];
    if (!(Body instanceof Readable) || ContentLength !== bytes - read) {
      throw unreadable(at, notAsAsked, 'stop');
    }
    addAbortSignal(signal, Body);
    empty += 1;
    let failure: unknown = unreadable(at, endedEarly, 'retry');
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

function unreadable({ Bucket, Key }: ObjectPlace, why: string, recovery: 'retry' | 'stop'): SyncError {
  return new SyncError(`Could not read s3://${Bucket}/${Key}: ${why}`, { code: 'TARGET_FAILED', recovery });
}

function tooLong({ Bucket, Key }: ObjectPlace): SyncError {
  return new SyncError(
    `Expected at most ${maxTextBytes} bytes in s3://${Bucket}/${Key}, got more: this program did not write it. Remove it, or choose another \`prefix\`.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
  );
}

interface Upload {
  readonly at: ObjectPlace;
  readonly file: FileHandle;
  readonly bytes: number;
  readonly partBytes: number;
}

/** Parts that S3 takes of one object; those of a file that would have more are longer. */
const maxParts = 10_000;

/** Uploads a file in parts, each with its checksum, two at a time. If it fails, the parts are removed again. */
export async function uploadInParts(
  { sdk, client, ask }: OpenS3Client,
  { at, file, bytes, partBytes }: Upload,
): Promise<void> {
  const length = Math.max(partBytes, Math.ceil(bytes / maxParts));
  const count = Math.ceil(bytes / length);
  const begin = new sdk.CreateMultipartUploadCommand({ ...at, ChecksumAlgorithm: 'SHA256' });
  const { UploadId } = await ask('write', begin);
  const id = { ...at, UploadId };
  const sendPart = async (number: number): Promise<CompletedPart> => {
    const first = (number - 1) * length;
    const body = await readRange(file, first, Math.min(length, bytes - first));
    const part = { PartNumber: number, ChecksumSHA256: checksumOf(body) };
    const input = new sdk.UploadPartCommand({ ...id, ...part, Body: body, ContentLength: body.length });
    const { ETag } = await ask('write', input);
    return { ...part, ETag };
  };
  try {
    const parts: CompletedPart[] = [];
    for (let number = 1; number <= count; number += 2) {
      parts.push(...(await Promise.all([number, number + 1].filter((each) => each <= count).map(sendPart))));
    }
    const end = new sdk.CompleteMultipartUploadCommand({ ...id, MultipartUpload: { Parts: parts } });
    await ask('write', end);
  } catch (error) {
    // The answer to the last request may be lost. A name is given once: what has it, and this length, is this file.
    const found = await ask('read', new sdk.HeadObjectCommand(at)).catch(() => null);
    if (found?.ContentLength === bytes) return;
    // The signal may be why it failed, so this has a deadline instead. Parts that stay are not seen by any reader.
    const inTime = { abortSignal: AbortSignal.timeout(5_000) };
    await client.send(new sdk.AbortMultipartUploadCommand(id), inTime).catch(() => undefined);
    throw error;
  }
}

/** Uploads that were begun and never ended, a page of them. The lengths of their parts are not known. */
export async function leftUploads(
  { sdk, ask, signal }: OpenS3Client,
  below: { readonly Bucket: string; readonly Prefix: string },
): Promise<readonly Leftover[]> {
  // It needs a right that nothing else does, and not every server has it: the bucket may have a rule that removes them.
  const page = await ask('list', new sdk.ListMultipartUploadsCommand(below)).catch(() => null);
  signal.throwIfAborted();
  return (page?.Uploads ?? []).flatMap(({ Key = '', UploadId, Initiated }) => {
    if (!Key.startsWith(below.Prefix) || Initiated === undefined) return [];
    const upload = new sdk.AbortMultipartUploadCommand({ Bucket: below.Bucket, Key, UploadId });
    const remove = async (): Promise<void> => void (await ask('remove', upload).catch(ignoreGone));
    const name = Key.slice(below.Prefix.length);
    // In a bucket without a prefix it may be another program's.
    const isShared = below.Prefix === '';
    return [{ name, isShared, files: 1, bytes: 0, modifiedAtMs: Initiated.getTime(), remove }];
  });
}

/** Another prune has removed the upload meanwhile. */
function ignoreGone(error: unknown): void {
  if (!(error instanceof SyncError) || error.context['code'] !== 'NoSuchUpload') throw error;
}

/** Rejects with TARGET_FAILED where the file is shorter. */
export async function readRange(file: FileHandle, first: number, length: number): Promise<Buffer> {
  const body = Buffer.allocUnsafe(length);
  for (let read = 0; read < length;) {
    const { bytesRead } = await file.read(body, read, length - read, first + read);
    if (bytesRead === 0) {
      throw new SyncError(
        `A file to upload should have at least ${first + length} bytes, but has ${first + read}: something else changes the folder of temporary files. Publish again.`,
        { code: 'TARGET_FAILED', recovery: 'retry' },
      );
    }
    read += bytesRead;
  }
  return body;
}

/** As S3 has it in its headers. */
export function checksumOf(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64');
}
