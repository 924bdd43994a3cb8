import { SyncError } from '../core/errors.ts';

/**
 * A failure to reach the API in words that name its origin (no path, no query) and what to check; any other error as it
 * came. The call behind it has used up its attempts.
 */
export function sayUnreachable(error: unknown, baseUrl: string): unknown {
  if (!(error instanceof SyncError) || (error.code !== 'NETWORK' && error.code !== 'TIMEOUT')) return error;
  const cause = String(error.context['cause'] ?? '');
  const what = whatByCause[cause];
  if (what === undefined) return error;
  const { origin } = new URL(baseUrl);
  const attempts = Number(error.context['attempts'] ?? 1);
  const tried = attempts > 1 ? ` after ${attempts} attempts` : '';
  return new SyncError(`${origin} ${what} (${cause})${tried}: ${advice(cause)}`, {
    code: error.code,
    recovery: error.recovery,
    context: { ...error.context, origin },
    cause: error,
  });
}

const notReached = 'could not be reached';
const closed = 'closed the connection without a complete answer';
const noHttp = 'does not answer in HTTP';

const whatByCause: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused the connection',
  ENOTFOUND: 'has a host name that was not found',
  EAI_AGAIN: 'has a host name that could not be looked up',
  EHOSTUNREACH: notReached,
  ENETUNREACH: notReached,
  ETIMEDOUT: notReached,
  UND_ERR_CONNECT_TIMEOUT: notReached,
  ECONNRESET: closed,
  EPIPE: closed,
  UND_ERR_SOCKET: closed,
  HPE_INVALID_CONSTANT: noHttp,
  HPE_INVALID_VERSION: noHttp,
  HPE_INVALID_STATUS: noHttp,
};

function advice(cause: string): string {
  if (cause === 'ECONNREFUSED') return 'is api.baseUrl right, and is the service running?';
  if (cause === 'ENOTFOUND' || cause === 'EAI_AGAIN') return 'is api.baseUrl right, and does DNS work here?';
  if (whatByCause[cause] === closed || whatByCause[cause] === noHttp) {
    return 'is api.baseUrl right? Another program than the API may listen there';
  }
  return 'is api.baseUrl right, and may this machine reach it (network, firewall)?';
}
