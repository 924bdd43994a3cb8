import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { SyncError } from '../../core/errors.ts';
import type { PostgresConnection } from './place.ts';

/**
 * TLS options for `pg`; false: no TLS. The requirements of a mode are never relaxed: a server without TLS is refused.
 * Throws `SyncError` SINK_FAILED for a file that holds no certificates.
 */
export function tlsOptions(
  { sslmode, rootCertificate }: Pick<PostgresConnection, 'sslmode' | 'rootCertificate'>,
  host: string,
): ConnectionOptions | false {
  if (sslmode === 'disable' || host.startsWith('/')) return false;
  if (sslmode === 'require') return { rejectUnauthorized: false };
  const trusted = rootCertificate === null ? {} : { ca: readCertificates(rootCertificate) };
  return sslmode === 'verify-ca' ? { ...trusted, checkServerIdentity: () => undefined } : trusted;
}

function readCertificates(file: string): string {
  try {
    const text = readFileSync(file, 'utf8');
    // A file without any would trust none, and the server would be blamed.
    void new X509Certificate(text);
    return text;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `sslrootcert should name a file with certificates in PEM, and ${file} cannot be used (${reason}). Correct the path, or the file.`,
      { code: 'SINK_FAILED', recovery: 'stop', context: { file }, cause: error },
    );
  }
}

/** Error codes of Node.js for certificates that are not accepted, and for failed handshakes. */
const certificate = /CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|^(INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED)$/;
const handshake = /^(EPROTO|ERR_(SSL|TLS|OSSL)_)/;
/** Messages of `pg`, without a code, when a server declines TLS. */
const withoutTls = /does not support SSL|error establishing an SSL connection/;
/** A certificate may list hundreds of names. */
const mostLetters = 300;

/** Explains a TLS failure of a connection and its remedy; null for any other failure. `code`: code of the error. */
export function tlsProblem(code: string, message: string): string | null {
  if (code === '' && withoutTls.test(message)) {
    return 'offers no TLS, and sslmode demands it. Set ssl = on in the server; sslmode=disable sends passwords and records unencrypted.';
  }
  const reason = `${code}: ${message.slice(0, mostLetters)}`;
  if (certificate.test(code)) {
    return `has a certificate that is not accepted (${reason}). sslrootcert in the address names the file of its authority; the host of the address must stand in it, unless sslmode is verify-ca, and the clock of this machine must be right.`;
  }
  return handshake.test(code)
    ? `could not agree on TLS (${reason}). Check the server's TLS settings and what is between.`
    : null;
}
