import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { orAborted } from '../../http/or-aborted.ts';
import { safeBase } from '../../sinks/files/safe-file-name.ts';
import { ApiError } from '../api-error.ts';
import type { ProviderFile } from '../provider.ts';

/** A client that takes nothing, or a provider that sends nothing, for so long is cut off. */
const defaultStalledMs = 60_000;

/**
 * Answers with the bytes of a file, at the pace at which the client takes them: about two chunks are in memory.
 * Resolves when the answer is through, whole or not. Where the provider fails, or gives other than `file.size` bytes,
 * it rejects while nothing was sent (two chunks, or the end, are waited for), for an answer that says so; later, it
 * ends the connection: what comes short never ends cleanly. `signal` must be aborted when the client disconnects; once
 * bytes were sent, the connection is cut when none has moved for `stalledMs`.
 */
export async function sendFile(
  reply: FastifyReply,
  file: ProviderFile,
  signal: AbortSignal,
  stalledMs: number = defaultStalledMs,
): Promise<FastifyReply> {
  const size = file.size !== null && Number.isSafeInteger(file.size) && file.size >= 0 ? file.size : null;
  // Do not start a read for a client that has disconnected: its failure would be unnoticed.
  signal.throwIfAborted();
  // A provider that ignores its signal does not hold the connection.
  const cut = (): void => {
    if (reply.raw.headersSent) reply.raw.destroy();
  };
  signal.addEventListener('abort', cut, { once: true });
  const bytes = wholeFile(file, size, signal);
  await orAborted(bytes.next(), signal);
  reply.raw.setTimeout(stalledMs);
  return reply
    .headers({
      'content-type': mediaType(file.contentType),
      'content-disposition': contentDisposition(file.name),
      // The type is the third party's word: no browser is to make something livelier of the bytes.
      'x-content-type-options': 'nosniff',
      ...(size === null ? {} : { 'content-length': String(size) }),
    })
    .send(Readable.from(bytes, { objectMode: false }));
}

/**
 * Always a chunk behind the provider, so that the last one comes when that has ended as it should: before, no client
 * can have it all. The first thing it gives is empty, and says that there are bytes to send (or none at all): until
 * then the answer can still be another one.
 */
async function* wholeFile(
  file: ProviderFile,
  size: number | null,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  let held: Uint8Array | null = null;
  let length = 0;
  let isOpen = false;
  for await (const chunk of file.read(signal)) {
    length += chunk.byteLength;
    if (size !== null && length > size) throw wrongLength(size, `${length} or more`);
    if (held !== null) {
      if (!isOpen) yield nothing;
      isOpen = true;
      yield held;
    }
    held = chunk;
  }
  if (size !== null && length < size) throw wrongLength(size, `${length}`);
  if (!isOpen) yield nothing;
  if (held !== null) yield held;
}

const nothing = new Uint8Array(0);

function wrongLength(size: number, got: string): ApiError {
  return new ApiError(502, `Expected a file of ${size} bytes from the third party, got ${got}.`, {
    errorCode: 'file_invalid',
  });
}

const token = "[A-Za-z0-9!#$&^_.+'*`|~%-]+";
const mediaTypePattern = new RegExp(`^${token}/${token}(; ?${token}=(${token}|"[ !#-[\\]-~]*"))*$`);

/** What the third party says, where that is a media type at all: anything else could break out of the header. */
function mediaType(text: string): string {
  return text.length <= 200 && mediaTypePattern.test(text) ? text : 'application/octet-stream';
}

/**
 * `attachment` with a file's name as RFC 6266 has it. The third party's name is first made harmless in any folder and
 * on any terminal; `filename*` holds it whole, and a plain `filename` beside it serves clients that know no other. Pure
 * ASCII whatever the name, so nothing in one can begin another header.
 */
export function contentDisposition(name: string): string {
  if (name === '') return 'attachment';
  const safe = safeBase(name);
  const plain = safe.replace(/[^ !#$&'()+,\-.0-9;=@A-Z[\]^_`a-z{}~]/gu, '_');
  const quoted = `attachment; filename="${plain}"`;
  return plain === safe ? quoted : `${quoted}; filename*=UTF-8''${encoded(safe)}`;
}

/** RFC 5987: what `encodeURIComponent` leaves and an extended value may not hold is written in hex, too. */
function encoded(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
