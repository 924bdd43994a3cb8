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
  /** Of all its listings, unless one of them says otherwise. */
  readonly all: Partial<Listing>;
  readonly entities: Readonly<Record<string, Partial<Listing>>>;
}

const usual: Omit<Listing, 'pages' | 'at'> = { each: '', key: 'id', of: {} };

export function listingOf({ all, entities }: Vendor, entity: string): Listing | null {
  const own = entities[entity];
  if (own === undefined) return null;
  const { pages = all.pages, at = all.at ?? '' } = own;
  if (pages === undefined) throw new Error(`${entity}: no kind of paging`);
  const named = (text: string): string => text.replace('{entity}', entity);
  return { ...usual, ...all, ...own, pages, at: named(at), each: named(own.each ?? all.each ?? '') };
}
