import { isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ConnectorId, EntityName } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { DownloadRequest, ReceiveFile } from '../source.ts';
import type { StreamCall } from './api-caller.ts';
import { entityFacts, type CallFacts } from './call-failure.ts';
import { invalidFile, fileTooLarge } from './classify-failure.ts';
import { dispositionName } from '../../http/header-values.ts';
import { tryJsonText } from '../../http/lossless-json.ts';
import { executeRequest } from './execute-call.ts';
import type { WireStream } from '../../http/exchange.ts';

const mediaType = /^[!#$&^\w.+-]{1,100}\/[!#$&^\w.+-]{1,100}(\s*;[\x20-\x7e]*)?$/;
const maxTypeChars = 200;

/** `POST connectors/{id}/execute` with `download`: the answer is the file itself. */
export function downloadCall<T>(
  connector: ConnectorId,
  definition: Definition,
  { entity, params, size, maxBytes }: DownloadRequest,
  receive: ReceiveFile<T>,
): StreamCall<T> {
  const facts = downloadFacts(definition, entity);
  return {
    request: {
      ...executeRequest(connector, { entity, action: 'download', params }),
      headers: { accept: '*/*', 'accept-encoding': 'identity' },
    },
    facts,
    receive: async (head, body, signal) => {
      // 206 is a part that was not requested, 202 a file that does not exist yet.
      if (head.status !== 200) {
        throw invalidFile(facts, `expected a file with HTTP 200, got HTTP ${head.status}`);
      }
      const name = dispositionName(head.header('content-disposition'));
      const type = head.header('content-type');
      const announced = announcedBytes(head, facts);
      const checked = checkedBytes(body, announced, size, maxBytes, facts);
      const bytes = isJson(type) ? refuseEnvelope(checked, name !== null, facts) : checked;
      return await receive({ name, contentType: contentTypeOf(type), size: announced, bytes }, signal);
    },
  };
}

export function downloadFacts(definition: Definition, entity: EntityName): CallFacts {
  return entityFacts(definition, 'download', entity);
}

function announcedBytes({ header }: Pick<WireStream, 'header'>, facts: CallFacts): number | null {
  const encoding = header('content-encoding')?.trim().toLowerCase() ?? '';
  // `identity` was requested: with another encoding the length could not be checked.
  if (encoding !== '' && encoding !== 'identity') {
    throw invalidFile(facts, 'expected the file as it is, got it with a content encoding');
  }
  const length = header('content-length')?.trim() ?? '';
  return /^\d{1,15}$/.test(length) ? Number(length) : null;
}

function isJson(type: string | null): boolean {
  return /^\s*[^;]*[/+]json\s*(;|$)/i.test(type ?? '');
}

/** What may be shown and stored of a `Content-Type`; null for the rest. */
export function contentTypeOf(type: string | null): string | null {
  const text = type?.trim() ?? '';
  return text.length <= maxTypeChars && mediaType.test(text) ? text : null;
}

/**
 * The chunks of a file, ended only where it is whole as far as that can be known: a connection that is closed too early
 * looks like the end of a body without a length. Its length in bytes is known from the answer's `Content-Length`
 * (announced) or the record; null: not known. Throws `CallFailure` for a file that is empty, of another length, or too
 * large.
 */
export async function* checkedBytes(
  chunks: AsyncIterable<Uint8Array>,
  announced: number | null,
  recorded: number | null,
  max: number,
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

/** An envelope without records is shorter; a longer one is a file. */
const longestEnvelope = 64 * 1024;

/**
 * The same chunks, unless all of them are an answer about the call instead of a file: the execute envelope, or where
 * the service names no file, the body of an error. JSON may well be a file. Throws `CallFailure` FILE_INVALID.
 */
async function* refuseEnvelope(
  chunks: AsyncIterable<Uint8Array>,
  isNamed: boolean,
  facts: CallFacts,
): AsyncGenerator<Uint8Array> {
  const held: Uint8Array[] = [];
  let length = 0;
  let isHeld = true;
  for await (const chunk of chunks) {
    if (isHeld) {
      held.push(chunk);
      length += chunk.byteLength;
      if (length <= longestEnvelope) continue;
      isHeld = false;
      yield* held.splice(0);
    } else yield chunk;
  }
  if (isHeld && isAboutCall(tryJsonText(Buffer.concat(held).toString('utf8')), isNamed)) {
    throw invalidFile(
      facts,
      'expected the bytes of a file, got an answer that says it failed, with HTTP 200',
    );
  }
  yield* held;
}

/** A file called JSON that is none is still a file. */
function isAboutCall(value: JsonValue | undefined, isNamed: boolean): boolean {
  if (!isJsonObject(value)) return false;
  const status = memberOf(value, 'status');
  if (typeof status === 'string' && isEnvelope(value)) return true;
  if (isNamed) return false;
  const isFailure = typeof status === 'string' && /^(error|fail)/i.test(status);
  return (
    isFailure || (typeof memberOf(value, 'message') === 'string' && Array.isArray(memberOf(value, 'errors')))
  );
}

function isEnvelope(value: JsonObject): boolean {
  const metadata = memberOf(value, 'execution_metadata');
  return isJsonObject(metadata) && typeof memberOf(metadata, 'connector_instance_id') === 'string';
}
