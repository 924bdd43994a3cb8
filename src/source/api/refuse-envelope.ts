import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { CallFacts } from './call-failure.ts';
import { invalidFile } from './classify-failure.ts';
import { JsonTextError, parseJsonText } from './read-body.ts';

/** An envelope without records is shorter; a longer one is a file. */
const maxChars = 64 * 1024;

/**
 * The same chunks, unless all of them are an answer about the call instead of a file: the execute envelope, or where the service
 * names no file, the body of an error. JSON may well be a file. Throws `CallFailure` FILE_INVALID.
 */
export async function* refuseEnvelope(
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
      if (length <= maxChars) continue;
      isHeld = false;
      yield* held.splice(0);
    } else yield chunk;
  }
  if (isHeld && isAboutCall(parsed(Buffer.concat(held).toString('utf8')), isNamed)) {
    throw invalidFile(
      facts,
      'expected the bytes of a file, got an answer that says it failed, with HTTP 200',
    );
  }
  yield* held;
}

function isAboutCall(value: JsonValue, isNamed: boolean): boolean {
  if (!isJsonObject(value)) return false;
  const status = own(value, 'status');
  if (typeof status === 'string' && isEnvelope(value)) return true;
  if (isNamed) return false;
  const isFailure = typeof status === 'string' && /^(error|fail)/i.test(status);
  return isFailure || (typeof own(value, 'message') === 'string' && Array.isArray(own(value, 'errors')));
}

function isEnvelope(value: JsonObject): boolean {
  const metadata = own(value, 'execution_metadata');
  return isJsonObject(metadata) && typeof own(metadata, 'connector_instance_id') === 'string';
}

function own(value: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function parsed(text: string): JsonValue {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    // A file called JSON that is none is still a file.
    return null;
  }
}
