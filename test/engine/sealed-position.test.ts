import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { openPosition, sealPosition } from '../../src/engine/walk.ts';
import { openRecordMask } from '../../src/settings/mask-settings.ts';

const maskWith = (byte: number) => ({
  mask: openRecordMask(
    { fields: new Map([['email', { kind: 'drop' }]]), unknownFields: 'keep' },
    new Secret(Buffer.alloc(32, byte).toString('base64')),
  ),
});
const unmasked = { mask: null };
const position = { kind: 'pageToken', token: 'after ann@example.com', read: 5, high: null };

describe('a position of a masked entity', () => {
  it('is stored encrypted, and resumes the walk', () => {
    const stored = sealPosition(maskWith(1), position);
    expect(stored.kind).toBe('sealed');
    expect(JSON.stringify(stored)).not.toMatch(/ann@|pageToken|YW5uQG/);
    expect(openPosition(maskWith(1), stored)).toEqual(position);
    expect(sealPosition(maskWith(1), position)).not.toEqual(stored);
  });

  it('starts the walk from the beginning where it was stored with another key, without a mask, or is damaged', () => {
    const stored = sealPosition(maskWith(1), position);
    expect(openPosition(maskWith(2), stored)).toBeNull();
    expect(openPosition(unmasked, stored)).toBeNull();
    expect(openPosition(maskWith(1), position)).toBeNull();
    expect(openPosition(maskWith(1), { kind: 'sealed', text: 'AAAA' })).toBeNull();
    expect(openPosition(maskWith(1), null)).toBeNull();
  });

  it('is as it was where the entity has no mask', () => {
    expect(sealPosition(unmasked, position)).toBe(position);
    expect(openPosition(unmasked, position)).toBe(position);
  });
});
