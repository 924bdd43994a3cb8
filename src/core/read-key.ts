export const keyBytes = 32;

export const expectedKey = `expected a key of ${keyBytes} bytes in base64 or hex, as "openssl rand -base64 32" makes one`;

/** Null for a text that is no key. */
export function readKey(text: string): Buffer | null {
  const key = /^[0-9a-f]{64}$/i.test(text)
    ? Buffer.from(text, 'hex')
    : /^[\w+/-]{43}=?$/.test(text)
      ? Buffer.from(text, 'base64')
      : null;
  return key?.length === keyBytes ? key : null;
}
