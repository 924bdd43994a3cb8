import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { tryJsonText } from '../../http/lossless-json.ts';

interface UpstreamMessage {
  /** What the body says went wrong, for matching; may hold personal data, so redact before showing. */
  readonly text: string;
  /** False for HTML and other bodies that the API itself did not write. */
  readonly isJson: boolean;
  /** Every `error_code` of the API's own shape: at most 20. */
  readonly errorCodes: readonly string[];
}

/**
 * The words in a failure's body: `{message, errors: [{field, message, details}]}` (the API's own shape),
 * `{detail}` or `{error}`; for anything else the beginning of the body.
 */
export function readUpstreamMessage(body: string): UpstreamMessage {
  const parsed = tryJsonText(body);
  if (!isJsonObject(parsed)) {
    return { text: body.slice(0, 2_000), isJson: Array.isArray(parsed), errorCodes: [] };
  }
  const parts: string[] = [];
  for (const name of ['message', 'detail', 'error', 'errors', 'result']) {
    if (Object.hasOwn(parsed, name)) collect(parsed[name], parts, 0);
  }
  const text =
    parts.length > 0
      ? withoutRepeats(parts)
          .map((part) => part.replace(/\.$/, ''))
          .join('; ')
      : body.slice(0, 2_000);
  return { text, isJson: true, errorCodes: errorCodesOf(parsed) };
}

function errorCodesOf({ errors }: JsonObject): readonly string[] {
  if (!isJsonArray(errors)) return [];
  return errors
    .slice(0, 20)
    .map((error) => (isJsonObject(error) ? error['error_code'] : null))
    .filter((code) => typeof code === 'string');
}

/** Services say one sentence in several members, and quote it in longer ones: the longest form once is enough. */
function withoutRepeats(parts: readonly string[]): readonly string[] {
  const texts = [...new Set(parts.map((part) => part.trim()))];
  return texts.filter((text) => !texts.some((other) => other !== text && other.includes(text)));
}

function collect(value: JsonValue | undefined, parts: string[], depth: number): void {
  if (parts.length >= 10 || depth > 4) return;
  if (typeof value === 'string') {
    if (value !== '') parts.push(value.slice(0, 2_000));
  } else if (isJsonArray(value)) {
    for (const element of value) collect(element, parts, depth + 1);
  } else if (isJsonObject(value)) {
    for (const name of ['message', 'details', 'detail', 'error', 'msg', 'error_code']) {
      if (Object.hasOwn(value, name)) collect(value[name], parts, depth + 1);
    }
  }
}
