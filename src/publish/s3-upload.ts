import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { CompletedPart } from '@aws-sdk/client-s3';
import { SyncError } from '../core/errors.ts';
import { leftoversOf, removeOld, type LeftoverAges, type Leftovers } from './object-store.ts';
import type { OpenS3Client } from './s3-client.ts';

export interface Upload {
  readonly at: { readonly Bucket: string; readonly Key: string };
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
  const { UploadId } = await ask('write', at.Key, (how) => client.send(begin, how));
  const id = { ...at, UploadId };
  const sendPart = async (number: number): Promise<CompletedPart> => {
    const first = (number - 1) * length;
    const body = await readRange(file, first, Math.min(length, bytes - first));
    const part = { PartNumber: number, ChecksumSHA256: checksumOf(body) };
    const input = new sdk.UploadPartCommand({ ...id, ...part, Body: body, ContentLength: body.length });
    const { ETag } = await ask('write', at.Key, (how) => client.send(input, how));
    return { ...part, ETag };
  };
  try {
    const parts: CompletedPart[] = [];
    for (let number = 1; number <= count; number += 2) {
      parts.push(...(await Promise.all([number, number + 1].filter((each) => each <= count).map(sendPart))));
    }
    const end = new sdk.CompleteMultipartUploadCommand({ ...id, MultipartUpload: { Parts: parts } });
    await ask('write', at.Key, (how) => client.send(end, how));
  } catch (error) {
    // The answer to the last request may be lost. A name is given once: what has it, and this length, is this file.
    const head = new sdk.HeadObjectCommand(at);
    const found = await ask('read', at.Key, (how) => client.send(head, how)).catch(() => null);
    if (found?.ContentLength === bytes) return;
    // The signal may be why it failed, so this has a deadline instead. Parts that stay are not seen by any reader.
    const inTime = { abortSignal: AbortSignal.timeout(5_000) };
    await client.send(new sdk.AbortMultipartUploadCommand(id), inTime).catch(() => undefined);
    throw error;
  }
}

/** Uploads that were begun and never ended, a page of them. The lengths of their parts are not known. */
export async function removeUploads(
  { sdk, client, ask, signal }: OpenS3Client,
  below: { readonly Bucket: string; readonly Prefix: string },
  ages: LeftoverAges,
): Promise<Leftovers> {
  // In a bucket without a prefix they may be anybody's.
  if (below.Prefix === '') return leftoversOf([]);
  const input = new sdk.ListMultipartUploadsCommand(below);
  // It needs a right that nothing else does, and not every server has it: the bucket may have a rule that removes them.
  const page = await ask('list', below.Prefix, (how) => client.send(input, how)).catch(() => null);
  signal.throwIfAborted();
  const found = (page?.Uploads ?? []).flatMap(({ Key = '', UploadId, Initiated }) => {
    if (!Key.startsWith(below.Prefix) || Initiated === undefined) return [];
    const upload = { Bucket: below.Bucket, Key, UploadId };
    return [{ upload, files: 1, bytes: 0, modifiedAtMs: Initiated.getTime() }];
  });
  return await removeOld(found, ages, async (old) => {
    for (const { upload } of old) {
      const abort = new sdk.AbortMultipartUploadCommand(upload);
      await ask('remove', upload.Key, (how) => client.send(abort, how)).catch(ignoreGone);
    }
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
