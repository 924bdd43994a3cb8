import { gzipSync } from 'node:zlib';
import type { Reply } from './exchange.ts';

/** Any status with a JSON body. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return text(status, JSON.stringify(body), { 'content-type': 'application/json', ...headers });
}

/** Any status with any body. */
export function text(status: number, body: string | Uint8Array, headers: Record<string, string> = {}): Reply {
  return ({ response }) => {
    response.writeHead(status, { 'content-type': 'text/plain', ...headers });
    response.end(body);
  };
}

/** The API's own error shape. */
export function apiError(status: number, message: string, headers: Record<string, string> = {}): Reply {
  return json(status, { message, errors: [] }, headers);
}

export function html(status: number, headers: Record<string, string> = {}): Reply {
  return text(status, '<html><body>Access Denied</body></html>', { 'content-type': 'text/html', ...headers });
}

/** A good execute envelope. */
export function success(result: unknown, metadata: unknown = null): Reply {
  return (exchange) => json(200, envelope(exchange.connectorId, result, metadata))(exchange);
}

export function envelope(connectorId: string, result: unknown, metadata: unknown = null): object {
  return {
    status: 'success',
    result,
    connector_metadata: metadata,
    execution_metadata: { connector_instance_id: `source_id:${connectorId}`, execution_time_ms: 1 },
  };
}

/** A good envelope whose `result` is JSON text as it stands: for numbers and depths that JavaScript cannot write. */
export function successText(result: string): Reply {
  return (exchange) => {
    const [head, tail] = JSON.stringify(envelope(exchange.connectorId, '@')).split('"@"');
    return text(200, `${head}${result}${tail}`, { 'content-type': 'application/json' })(exchange);
  };
}

export function gzipped(result: unknown): Reply {
  return (exchange) =>
    text(200, gzipSync(JSON.stringify(envelope(exchange.connectorId, result))), {
      'content-encoding': 'gzip',
    })(exchange);
}

/** A few kilobytes that inflate to `bytes` of valid JSON. */
export function gzipBomb(bytes: number): Reply {
  return text(200, gzipSync(`["${'a'.repeat(bytes)}"]`), { 'content-encoding': 'gzip' });
}

/** `retryAfter` in seconds, as an HTTP date so many seconds ahead, or absent. */
export function throttled(retryAfter: { seconds: number } | { dateIn: number } | null, status = 429): Reply {
  if (retryAfter === null) return apiError(status, 'Too many requests');
  const value =
    'seconds' in retryAfter
      ? String(retryAfter.seconds)
      : new Date(Date.now() + retryAfter.dateIn * 1_000).toUTCString();
  return apiError(status, 'Too many requests', { 'retry-after': value });
}

/** The reply, but not before `until` has come. */
export function held(until: Promise<unknown>, reply: Reply): Reply {
  return async (exchange) => {
    await until;
    await reply(exchange);
  };
}

export function redirect(status: number, location: string): Reply {
  return text(status, '', { location });
}
