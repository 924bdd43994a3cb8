import { hideSecrets, isPlainWord } from '../core/secret.ts';

const maxLength = 300;
/** Without the signs at its end, which belong to the sentence. */
const email = /[^\s@"'<>()]{1,64}@[^\s@"'<>()]{0,254}[^\s@"'<>().,;:!?]/g;
const bearer = /\bbearer\s+([\w.~+/=-]+)/gi;
const assigned =
  /\b(password|secret|client_secret|access_token|token|api[_-]?key)(["']?\s*[:=]\s*["']?)([^\s"',;}]+)/gi;
/** Tokens, keys and hashes of e-mail addresses: long, without spaces, with a digit. */
const run = /[A-Za-z0-9+_=-]{24,}/g;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
// Controls, zero-width, bidi, BOM: characters that could forge a log line or turn a terminal's text around.
const invisible = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;

/**
 * An upstream error message, made safe for errors and logs: without the known secrets, e-mail addresses, tokens,
 * long hex or base64 runs (UUIDs stay: they name records) and invisible characters, cut to 300 characters.
 */
export function redactMessage(text: string, secrets: readonly string[]): string {
  const clean = hideSecrets(text, secrets)
    .replace(invisible, ' ')
    .replace(bearer, (found, value: string) => (isPlainWord(value) ? found : 'Bearer [redacted]'))
    .replace(assigned, (found, name: string, separator: string, value: string) =>
      value === '[secret]' || (separator.endsWith(': ') && isPlainWord(value))
        ? found
        : `${name}${separator}[redacted]`,
    )
    .replace(email, '[e-mail]')
    .replace(run, (found) => (uuid.test(found) || !/\d/.test(found) ? found : '[redacted]'))
    .trim();
  return clean.length > maxLength ? `${clean.slice(0, maxLength - 1)}…` : clean;
}
