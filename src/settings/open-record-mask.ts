import { createHmac, hash } from 'node:crypto';
import { writeJson } from '../core/json-text.ts';
import { readKey } from '../core/read-key.ts';
import type { RecordMask } from '../core/records.ts';
import type { Secret } from '../core/secret.ts';
import { usage } from '../core/usage-error.ts';
import { compileMask } from '../definitions/mask/compile-mask.ts';
import type { MaskRules } from '../definitions/mask/mask-rules.ts';
import { createSealer, derivedKey } from '../files/sealer.ts';

/** To be raised where the same rules come to mean another value: every masked entity is then read in full. */
const maskVersion = 2;

const hashedText = /^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/;

/** Whether a text is what a mask has made of a value. */
function isHashed(text: string): boolean {
  return hashedText.test(text);
}

/** By which key a value was hashed: of a constant, so that it gives nothing of the key away. */
function maskKeyId(key: Secret): string {
  return hmac(keyOf(key), 'connector-sync mask key id').slice(0, 8);
}

/** The mask of one entity. Without the key, which may be missing where nothing is read, it masks nothing and throws. */
export function openRecordMask(rules: MaskRules, key: Secret | null): RecordMask {
  if (key === null) {
    const nothing = { record: noKey, stored: noKey, rawKey: noKey, seal: noKey, open: noKey };
    return { fingerprint: '', keyId: '', ...nothing };
  }
  const keyId = maskKeyId(key);
  const fields = [...rules.fields].toSorted(([left], [right]) => (left < right ? -1 : 1));
  const about = writeJson([maskVersion, fields, rules.unknownFields, keyId]);
  const fingerprint = hash('sha256', about, 'hex').slice(0, 32);
  const bytes = keyOf(key);
  const prefix = `hmac-${keyId}-`;
  const hashOf = (text: string): string => prefix + hmac(bytes, text);
  const rawKey = derivedKey(bytes, 'mask bytes');
  // Its messages are never shown.
  const sealer = createSealer(bytes, { purpose: 'mask positions', otherKey: '', damaged: '' });
  return {
    fingerprint,
    keyId,
    record: compileMask(rules, hashOf),
    stored: compileMask(rules, hashOf, isHashed),
    rawKey: (secret) => hmac(rawKey, `${secret}${fingerprint}`),
    seal: (text) => sealer.seal(text, sealedFor).toString('base64'),
    open: (sealed) => {
      try {
        return sealer.open(Buffer.from(sealed, 'base64'), sealedFor);
      } catch {
        // Of another key or damaged: what it was for starts from the beginning.
        return null;
      }
    },
  };
}

const sealedFor = 'position';

function keyOf(key: Secret): Buffer {
  const bytes = readKey(key.reveal());
  if (bytes === null) throw new TypeError('a key was not checked');
  return bytes;
}

function hmac(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

function noKey(): never {
  throw usage('mask.key is missing here: without it no record of a masked entity can be read.');
}
