import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { SyncError } from '../core/errors.ts';
import { keyBytes } from '../core/secret.ts';

/** A key for one purpose alone: knowing it reveals neither the first key nor that of another purpose. */
export function derivedKey(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), `connector-sync ${purpose}`, keyBytes));
}

/** Encrypts texts: unreadable without the key. */
export type Sealer = ReturnType<typeof createSealer>;

const algorithm = 'aes-256-gcm';
const formatVersion = 1;
const keyIdBytes = 8;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes;

interface SealerOptions {
  /** Purpose that the key is derived for. */
  readonly purpose: string;
  /** Advice for a text that was sealed with another key. */
  readonly otherKey: string;
  /** Advice for a text that is damaged or belongs to another owner. */
  readonly damaged: string;
}

/**
 * AES-256-GCM: format version, id of the key, a random nonce, the tag, then the text. Everything before the tag and the
 * owner are authenticated with it. Without a key every call throws `SyncError` INTERNAL.
 */
export function createSealer(key: Buffer | null, { purpose, otherKey, damaged }: SealerOptions) {
  if (key === null) return { seal: noKey, open: noKey, checkKey: noKey };
  const cipherKey = derivedKey(key, purpose);
  const keyId = createHmac('sha256', cipherKey).update('key id').digest().subarray(0, keyIdBytes);
  /** Throws `SyncError` SINK_INCOMPATIBLE for a text that was sealed with another key. */
  const checkKey = (sealed: Buffer): void => {
    if (sealed[0] !== formatVersion || sealed.length < headBytes) throw incompatible(damaged);
    if (!sealed.subarray(1, 1 + keyIdBytes).equals(keyId)) throw incompatible(otherKey);
  };
  return {
    /** `owner`: the object that the text belongs to. */
    seal: (text: string, owner: string): Buffer => {
      const head = Buffer.concat([Buffer.of(formatVersion), keyId, randomBytes(nonceBytes)]);
      const cipher = createCipheriv(algorithm, cipherKey, nonceOf(head), { authTagLength: tagBytes });
      cipher.setAAD(Buffer.concat([head, Buffer.from(owner)]));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([head, cipher.getAuthTag(), body]);
    },
    /** Throws `SyncError` SINK_INCOMPATIBLE where the key, the owner or a byte is another one. */
    open: (sealed: Buffer, owner: string): string => {
      checkKey(sealed);
      const head = sealed.subarray(0, headBytes - tagBytes);
      const decipher = createDecipheriv(algorithm, cipherKey, nonceOf(head), { authTagLength: tagBytes });
      decipher.setAAD(Buffer.concat([head, Buffer.from(owner)]));
      decipher.setAuthTag(sealed.subarray(headBytes - tagBytes, headBytes));
      const body = decipher.update(sealed.subarray(headBytes));
      try {
        return Buffer.concat([body, decipher.final()]).toString('utf8');
      } catch {
        // The cause would say no more than that the tag is another one.
        throw incompatible(damaged);
      }
    },
    checkKey,
  };
}

function nonceOf(head: Buffer): Buffer {
  return head.subarray(1 + keyIdBytes, 1 + keyIdBytes + nonceBytes);
}

function incompatible(message: string): SyncError {
  return new SyncError(message, { code: 'SINK_INCOMPATIBLE', recovery: 'stop' });
}

function noKey(): never {
  throw new SyncError('Credentials cannot be sealed or opened without a key.', {
    code: 'INTERNAL',
    recovery: 'stop',
  });
}
