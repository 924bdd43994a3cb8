const maxNameChars = 1_000;
const nameParameter = /;\s*(filename\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/gi;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The file name in a `Content-Disposition` header (RFC 6266): `filename*` (RFC 5987) before `filename`. Null where
 * there is none that can be read. Whatever the service wrote comes back, cut to 1000 characters: fit neither for a path
 * nor for a terminal.
 */
export function dispositionName(header: string | null): string | null {
  if (header === null) return null;
  const found = new Map<string, string>();
  for (const [, name = '', quoted, bare = ''] of header.matchAll(nameParameter)) {
    const value = quoted === undefined ? bare : quoted.replaceAll(/\\(.)/g, '$1');
    const text = name.endsWith('*') ? readExtended(value) : readPlain(value);
    if (text !== null && text !== '' && !found.has(name.toLowerCase())) found.set(name.toLowerCase(), text);
  }
  const name = found.get('filename*') ?? found.get('filename');
  return name === undefined ? null : name.slice(0, maxNameChars).toWellFormed();
}

/** `UTF-8'en'%e2%82%ac.txt`. */
function readExtended(value: string): string | null {
  const [, charset = '', encoded = ''] = /^([^']*)'[^']*'(.*)$/.exec(value) ?? [];
  const bytes = Buffer.from(
    encoded.replaceAll(/%([0-9a-f]{2})/gi, (_all, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    ),
    'latin1',
  );
  if (/^utf-8$/i.test(charset)) return decodeUtf8(bytes);
  return /^iso-8859-1$/i.test(charset) ? bytes.toString('latin1') : null;
}

/** Headers are Latin-1; what many services send in them is UTF-8 all the same. */
function readPlain(value: string): string {
  return decodeUtf8(Buffer.from(value, 'latin1')) ?? value;
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    // Says only that it is no UTF-8.
    return null;
  }
}

/** Of a wait. */
const maxWaitMs = 3_600_000;

/**
 * Requests a second that a `RateLimit-Policy` header allows, of several policies the strictest: `"default";q=100;w=60`,
 * or in the earlier form `100;w=60`. Null where it states none.
 */
export function policyRate(header: string | null): number | null {
  const rates = (header ?? '').split(',').flatMap((policy) => {
    const [, quota] = /(?:^\s*|;\s*q\s*=\s*)(\d{1,9})\s*(?:;|$)/.exec(policy) ?? [];
    const [, seconds] = /;\s*w\s*=\s*(\d{1,9})\s*(?:;|$)/.exec(policy) ?? [];
    const rate = Number(quota) / Number(seconds);
    return Number.isFinite(rate) && rate > 0 ? [rate] : [];
  });
  return rates.length === 0 ? null : Math.min(...rates);
}

/**
 * Milliseconds a `Retry-After` header asks for: whole or decimal seconds, or an HTTP date (measured against the
 * server's own `Date`, so that a clock that is off here does not matter). At most one hour; null without a header that
 * can be read.
 */
export function retryAfterMs(header: string | null, serverDate: string | null, now: number): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Math.min(Math.ceil(Number(text) * 1000), maxWaitMs);
  // Date.parse is lenient ("-5" is a year): an HTTP date always names a weekday or month.
  const at = /[a-z]{3}/i.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) return null;
  const serverNow = serverDate === null ? Number.NaN : Date.parse(serverDate);
  return Math.min(Math.max(at - (Number.isNaN(serverNow) ? now : serverNow), 0), maxWaitMs);
}
