import type * as z from 'zod';
import type { writtenSettings } from '../settings/settings-file.ts';

// The package has these types written out (src/build-types.mjs), because it comes without zod.

/** The content of a config file, as an object. */
export type Config = z.input<ReturnType<typeof writtenSettings>>;

/** An entry below `connectors`. */
export type ConnectorConfig = Extract<
  NonNullable<Config['connectors']>,
  Readonly<Record<string, unknown>>
>[string];

/** The records of an entity. */
export interface RecordShape {
  /** A record as it is stored and exported. */
  readonly stored: object;
  /** The names of its fields that make up the key. */
  readonly key: string;
  /** A record as `search` returns it. */
  readonly found: object;
}

/** The records of the built-in connector types, by definition and entity. */
export type BuiltInRecords = Readonly<Record<string, Readonly<Record<string, AnyRecord>>>>;

interface AnyRecord extends RecordShape {
  readonly stored: Readonly<Record<string, unknown>>;
  readonly found: Readonly<Record<string, unknown>>;
}
