import type { JsonValue } from './json.ts';

/** Stands for a service's own words about a masked entity. */
export const hiddenWords = '[hidden: the entity has a mask]';

/** What keeps values of an entity's records from being stored and shown. Holds no key that can be printed. */
export interface RecordMask {
  /** Changes with everything that decides what becomes of a value: the rules and the key. Gives no key away. */
  readonly fingerprint: string;
  /** Which key it hashes with. Empty with the fingerprint where the key is missing. */
  readonly keyId: string;
  /** The record as it may be stored and shown. What is no object has no fields to go by: null. */
  readonly record: (value: JsonValue) => JsonValue;
  /**
   * A record that was stored, whose values another mask may have changed: as `record`, but what is a hash already stays
   * as it is.
   */
  readonly stored: (value: JsonValue) => JsonValue;
  /** The secret of a sink, mixed with the key: without the key no hash made with it says anything of what it is of. */
  readonly rawKey: (secret: string) => string;
  /** Encrypts what may hold values that the service was asked by. */
  readonly seal: (text: string) => string;
  /** Null: it was sealed with another key, or is damaged. */
  readonly open: (sealed: string) => string | null;
}
