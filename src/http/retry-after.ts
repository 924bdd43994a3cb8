const maxMs = 3_600_000;

/**
 * Milliseconds a `Retry-After` header asks for: whole or decimal seconds, or an HTTP date (measured against the
 * server's own `Date`, so that a clock that is off here does not matter). At most one hour; null without a header that
 * can be read.
 */
export function retryAfterMs(header: string | null, serverDate: string | null, now: number): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Math.min(Math.ceil(Number(text) * 1000), maxMs);
  // Date.parse is lenient ("-5" is a year): an HTTP date always names a weekday or month.
  const at = /[a-z]{3}/i.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) return null;
  const serverNow = serverDate === null ? Number.NaN : Date.parse(serverDate);
  return Math.min(Math.max(at - (Number.isNaN(serverNow) ? now : serverNow), 0), maxMs);
}
