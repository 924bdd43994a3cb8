import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { DownloadRequest, ReceiveFile } from '../source.ts';
import type { StreamCall } from './api-caller.ts';
import type { CallFacts } from './call-failure.ts';
import { invalidFile, fileTooLarge } from './classify-failure.ts';
import { dispositionName } from './disposition-name.ts';
import type { BodyHead } from './stream-body.ts';
import { refuseEnvelope } from './refuse-envelope.ts';
import { stringifyParams } from './read-body.ts';

const mediaType = /^[!#$&^\w.+-]{1,100}\/[!#$&^\w.+-]{1,100}(\s*;[\x20-\x7e]*)?$/;
const maxTypeChars = 200;

/** `POST connectors/{id}/execute` with `download`: the answer is the file itself. */
export function downloadCall<T>(
  connector: ConnectorId,
  definition: Definition,
  { entity, params, size, maxBytes }: DownloadRequest,
  receive: ReceiveFile<T>,
): StreamCall<T> {
  const facts: CallFacts = {
    purpose: 'execute',
    label: `download ${entity}`,
    entity,
    isRoot: false,
    canShrink: false,
    hasPageToken: false,
    patterns: definition.errors,
  };
  return {
    request: {
      method: 'POST',
      path: `/api/v1/integrations/connectors/${connector}/execute`,
      query: {},
      body: stringifyParams({ entity, action: 'download', params }),
    },
    facts,
    headers: { accept: '*/*', 'accept-encoding': 'identity' },
    receive: async (head, body, signal) => {
      // 206 is a part that was not requested, 202 a file that does not exist yet.
      if (head.status !== 200) {
        throw invalidFile(facts, `expected a file with HTTP 200, got HTTP ${head.status}`);
      }
      const name = dispositionName(head.contentDisposition);
      const announced = announcedBytes(head, facts);
      const checked = checkedBytes(body, { announced, recorded: size, max: maxBytes }, facts);
      const bytes = isJson(head) ? refuseEnvelope(checked, name !== null, facts) : checked;
      return await receive({ name, contentType: contentTypeOf(head), size: announced, bytes }, signal);
    },
  };
}

function announcedBytes({ contentEncoding, contentLength }: BodyHead, facts: CallFacts): number | null {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  // `identity` was requested: with another encoding the length could not be checked.
  if (encoding !== '' && encoding !== 'identity') {
    throw invalidFile(facts, 'expected the file as it is, got it with a content encoding');
  }
  return contentLength !== null && /^\d{1,15}$/.test(contentLength.trim()) ? Number(contentLength) : null;
}

function isJson({ contentType }: BodyHead): boolean {
  return /^\s*[^;]*[/+]json\s*(;|$)/i.test(contentType ?? '');
}

function contentTypeOf({ contentType }: BodyHead): string | null {
  const text = contentType?.trim() ?? '';
  return text.length <= maxTypeChars && mediaType.test(text) ? text : null;
}

/** What is known of a file's length before its bytes come; in bytes, null: nothing. */
interface FileLengths {
  /** By the answer's `Content-Length`. */
  readonly announced: number | null;
  /** By the record. */
  readonly recorded: number | null;
  readonly max: number;
}

/**
 * The chunks of a file, ended only where it is whole as far as that can be known: a connection that is closed too early looks like the
 * end of a body without a length. Throws `CallFailure` for a file that is empty, of another length, or too large.
 */
async function* checkedBytes(
  chunks: AsyncIterable<Uint8Array>,
  { announced, recorded, max }: FileLengths,
  facts: CallFacts,
): AsyncGenerator<Uint8Array> {
  if (Math.max(announced ?? 0, recorded ?? 0) > max) throw fileTooLarge(facts, max);
  if (announced !== null && recorded !== null && announced !== recorded) {
    throw invalidFile(facts, `expected ${recorded} bytes by its record, the answer announces ${announced}`);
  }
  const expected = announced ?? recorded;
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.byteLength;
    if (length > max) throw fileTooLarge(facts, max);
    if (expected !== null && length > expected) {
      throw invalidFile(facts, `expected ${expected} bytes, got more`);
    }
    if (chunk.byteLength > 0) yield chunk;
  }
  if (length === 0) {
    throw invalidFile(facts, 'expected a file, got an empty body; the API may not know the file');
  }
  if (expected !== null && length < expected) {
    throw invalidFile(facts, `expected ${expected} bytes, got ${length}`);
  }
}
