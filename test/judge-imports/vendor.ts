import type { JsonObject } from '../../src/core/json.ts';
import type { Pages } from './paging-kinds.ts';

/** One listing as the vendor documents it: written by hand, never read from an imported file. */
export interface Listing {
  readonly pages: Pages;
  /** Dotted place of the records in the answer, `{entity}` for its name; an empty text: the answer is the array. */
  readonly at: string;
  /** Each element of the array has its record as this member. */
  readonly each: string;
  /** The field that identifies a record. */
  readonly key: string;
  /** Parameter, and `entity.field` whose values it takes: the listing is that of one parent record. */
  readonly of: Readonly<Record<string, string>>;
  /** Parameters with a fixed value that a person has to know: a name of an account. */
  readonly given: Readonly<Record<string, string>>;
  /** Parameters that must be sent, and what they must look like. */
  readonly needs: Readonly<Record<string, RegExp>>;
  /** Parameters that must be sent, and what they must look like: otherwise each third record is left out. */
  readonly whole: Readonly<Record<string, RegExp>>;
  /** Tells listings with one address apart: found in the text of the request. */
  readonly match: RegExp | null;
  /** Fields of a record and what each of them always is. */
  readonly fields: JsonObject;
  /** Its keys are digits. */
  readonly hasNumbers: boolean;
  /** Of parents that have children at all. */
  readonly when: Readonly<Record<string, string>>;
}

export interface Vendor {
  /** Where the vendor says how its listings page. */
  readonly docs: string;
  /** What stands before the paths of the operations. */
  readonly base: string;
  /** What a person types in. */
  readonly credentials: Readonly<Record<string, string>>;
  /** Headers without which a request is answered with 401. */
  readonly signed: Readonly<Record<string, string>>;
  /** Headers without which a request is answered with 400. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Replaces guesses under a TODO: `server`, `values` of all entities, `key`, `values` and `records` of one. */
  readonly edits?: JsonObject;
  /** Of all its listings, unless one of them says otherwise. */
  readonly all: Partial<Listing>;
  readonly entities: Readonly<Record<string, Partial<Listing>>>;
}

const usual: Omit<Listing, 'pages' | 'at'> = {
  each: '',
  key: 'id',
  of: {},
  given: {},
  needs: {},
  whole: {},
  match: null,
  fields: {},
  hasNumbers: false,
  when: {},
};

export function listingOf({ all, entities }: Vendor, entity: string): Listing | null {
  const own = entities[entity];
  if (own === undefined) return null;
  const { pages = all.pages, at = all.at ?? '' } = own;
  if (pages === undefined) throw new Error(`${entity}: no kind of paging`);
  const named = (text: string): string => text.replace('{entity}', entity);
  return { ...usual, ...all, ...own, pages, at: named(at), each: named(own.each ?? all.each ?? '') };
}

/** Entities that page alike. */
export function many(
  names: string,
  listing: Partial<Listing> = {},
): Readonly<Record<string, Partial<Listing>>> {
  return Object.fromEntries(names.split(' ').map((name) => [name, listing]));
}

/** `user:password` as a header. */
export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}
