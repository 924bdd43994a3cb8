import * as z from 'zod';
import { expectedKey, keyBytes, readKey } from '../core/read-key.ts';
import { Secret } from '../core/secret.ts';
import { strictObject, textAs } from '../definitions/schema-problems.ts';
import { orNull } from './texts.ts';

export type EntityMaskFile = z.output<typeof entityMask>;
export type MaskRuleFile = EntityMaskFile['fields'][string];

/** A key of 32 bytes. */
export function secretKey() {
  return orNull(
    textAs(Buffer.alloc(keyBytes).toString('base64'), (text, note) => {
      if (readKey(text) === null) note(expectedKey);
      return new Secret(text);
    }),
  ).meta({ writeOnly: true });
}

const rule = z.union(
  [
    z.enum(['keep', 'drop', 'hash']),
    strictObject({ hash: strictObject({ as: z.enum(['text', 'email', 'phone']) }) }),
    strictObject({ truncate: z.int().min(1).max(1000) }),
  ],
  { error: 'expected keep, drop, hash, { hash: { as: email } }, { hash: { as: phone } } or { truncate: 3 }' },
);

const entityMask = strictObject({
  fields: z.record(z.string(), rule).default({}).meta({
    description:
      'Path -> keep, drop, hash, { hash: { as: email } }, { truncate: 3 }; * stands for any one name',
  }),
  unknownFields: z.enum(['keep', 'drop']).default('keep').meta({
    description: 'drop: only fields that a path covers are stored',
  }),
});

/** Of a connector: by entity. */
export const connectorMask = z.record(z.string(), entityMask).meta({
  description: 'Values that are never stored as they come, by entity and path',
});

/** Of the config: what all masks share. */
export const maskFile = strictObject({
  key: secretKey().meta({
    description:
      'What values are hashed with; needed where a connector has a mask. Best as ${file:path} or ${VARIABLE}',
  }),
});
