import { AddressRefusedError } from '../http/guard-address.ts';
import { AttemptTimeoutError, UnreadableBodyError } from '../http/read-body.ts';
import { networkTexts, saysNoHttp } from '../http/network-texts.ts';
import { UpstreamFailure } from './upstream-failure.ts';

/**
 * A call that got no answer, or one that could not be read. Null for what is no failure of a call. The error itself is
 * not kept: it may hold headers.
 */
export function failureOfError(error: unknown, host: string): UpstreamFailure | null {
  if (error instanceof UpstreamFailure) return error;
  if (!(error instanceof Error)) return null;
  if (error instanceof AttemptTimeoutError) {
    return new UpstreamFailure('unavailable', `${host} did not answer in time: ${error.message}`, {
      reason: 'timeout',
    });
  }
  if (error instanceof UnreadableBodyError) {
    return error.fault === 'too-large'
      ? tooLarge(`${host}: ${error.message}`)
      : new UpstreamFailure('unavailable', `${host}: ${error.message}`, { reason: 'brokenBody' });
  }
  if (error instanceof AddressRefusedError) {
    return new UpstreamFailure('refused', error.message, { reason: 'address' });
  }
  const code = codeOf(error);
  if (/HEADERS_OVERFLOW|HPE_HEADER_OVERFLOW/.test(code)) {
    return tooLarge(`${host}: expected headers within the size limit, got larger ones`);
  }
  if (/CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO_(VERIFY|GET)/.test(code)) {
    return new UpstreamFailure('refused', `no trusted TLS connection to ${host} (${code})`, {
      reason: 'network',
    });
  }
  if (code.startsWith('Z_')) {
    return new UpstreamFailure('unavailable', `${host}: the gzip body is cut or damaged`, {
      reason: 'brokenBody',
    });
  }
  if (code === 'ENOTFOUND') {
    return new UpstreamFailure('unavailable', `cannot reach ${host}: host name not found`, {
      reason: 'name',
    });
  }
  const known = networkTexts[code];
  if (known !== undefined) {
    return network(`${isStaleConnection(error) ? '' : 'cannot reach '}${host}: ${known} (${code})`);
  }
  if (saysNoHttp(code)) return network(`${host} does not answer in HTTP (${code})`);
  if (/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/.test(code)) {
    return new UpstreamFailure('unavailable', `${host} did not answer in time (${code})`, {
      reason: 'timeout',
    });
  }
  if (
    /^HPE_|^HTTPParserError$|^UND_ERR_(?!INVALID|NOT_SUPPORTED|REQ_)|^E[A-Z]+$|^EAI_|^ERR_STREAM_/.test(code)
  ) {
    return network(`cannot reach ${host}, or its answer was cut off (${code})`);
  }
  return null;
}

/** An idle connection that the service had closed before the request reached it. */
export function isStaleConnection(error: unknown): boolean {
  return error instanceof Error && ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(codeOf(error));
}

function network(text: string): UpstreamFailure {
  return new UpstreamFailure('unavailable', text, { reason: 'network' });
}

function tooLarge(text: string): UpstreamFailure {
  return new UpstreamFailure('tooLarge', text, { reason: 'tooLarge' });
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
