import { createHmac, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../api-error.ts';

export interface PageTokens {
  /** A token for the page of `listing` that starts at `offset`. */
  issue(listing: string, offset: number): string;
  /** Throws 400 for a token that was not issued for this listing by this service since its start. */
  read(param: string, listing: string, token: string): number;
}

const signatureLength = 32;

/** Opaque to clients and kept by nobody: the offset, signed together with the listing it belongs to. */
export function createPageTokens(key: Buffer): PageTokens {
  const sign = (listing: string, offset: string): string =>
    createHmac('sha256', key).update(`${offset}:${listing}`).digest('hex').slice(0, signatureLength);

  return {
    issue(listing, offset) {
      const text = offset.toString(36);
      return Buffer.from(`${sign(listing, text)}${text}`).toString('base64url');
    },
    read(param, listing, token) {
      const text = Buffer.from(token, 'base64url').toString('latin1');
      const signature = text.slice(0, signatureLength);
      const offset = text.slice(signatureLength);
      const expected = sign(listing, offset);
      const isOurs =
        signature.length === expected.length &&
        timingSafeEqual(Buffer.from(signature, 'latin1'), Buffer.from(expected, 'latin1'));
      if (!isOurs) {
        throw new ApiError(400, `${param} provided is invalid`, {
          field: `params.${param}`,
          errorCode: 'validation_error',
        });
      }
      return Number.parseInt(offset, 36);
    },
  };
}
