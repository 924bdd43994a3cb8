import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { madeUpRecord } from './made-up-record.ts';
import { textOf, type Row } from './paging-kinds.ts';
import { membersOf, type PublicFile } from './public-file.ts';
import { listingOf, type Listing, type Vendor } from './vendor.ts';

/** One listing of an entity: all of it, or that of one parent record. */
export interface Scope {
  /** The parameters by which it is asked for. */
  readonly params: Readonly<Record<string, string>>;
  /** In the order of the listing; edited while rows move. */
  readonly rows: Row[];
}

export interface MadeUpEntity {
  readonly listing: Listing;
  /** Fields that tell its records apart. */
  readonly ids: readonly string[];
  /** By the text of the parameters. */
  readonly scopes: Map<string, Scope>;
  /** Another record of it, for this listing. */
  readonly make: (params: Readonly<Record<string, string>>) => JsonObject;
}

export type Account = ReadonlyMap<string, MadeUpEntity>;

/** Records for every entity of the vendor's table that the file has, parents first. */
export function madeUpAccount(vendor: Vendor, file: PublicFile, seed: number): Account {
  const account = new Map<string, MadeUpEntity>();
  const random = seededRandom(seed);
  let made = 0;
  const add = (entity: string): void => {
    const listing = listingOf(vendor, entity);
    const schema = file.listings.get(entity)?.answer;
    if (account.has(entity) || listing === null || schema === undefined) return;
    for (const place of Object.values(listing.of)) add(placeOf(place).entity);
    const record = file.schemaAt(schema, [listing.at, listing.each].filter((part) => part !== '').join('.'));
    const members = membersOf(record, file.resolve);
    const ids = [...new Set([listing.key, ...namedBy(vendor, entity)])];
    const make = (params: Scope['params']): JsonObject => {
      made += 1;
      const above = Object.entries(params).filter(([name]) => members[name] !== undefined);
      // Ids that only count would hide a mistake between two entities.
      const number = 7_000_000 + made * 3;
      const text = `${entity.slice(0, 3)}${made}x`;
      const id = (name: string): JsonValue => (isInteger(file.resolve(members[name])) ? number : text);
      return {
        ...madeUpRecord(record, file.resolve, random, made),
        ...Object.fromEntries(
          above.map(([name, value]) => [
            name,
            isInteger(file.resolve(members[name])) ? Number(value) : value,
          ]),
        ),
        ...Object.fromEntries(ids.map((name) => [name, id(name)])),
      };
    };
    const { longest } = listing.pages;
    const scopes = new Map<string, Scope>();
    scopesOf(listing, account).forEach((params, index) => {
      const rows = Array.from({ length: lengthOf(longest, index) }, (_, rank) => ({
        rank: (rank + 1) * 1_000,
        record: make(params),
      }));
      scopes.set(scopeText(params), { params, rows });
    });
    account.set(entity, { listing, ids, scopes, make });
  };
  for (const entity of Object.keys(vendor.entities)) add(entity);
  return account;
}

/** The first listing has several pages, the second ends with a full one; most of the others are empty. */
function lengthOf(longest: number, index: number): number {
  const others = [0, 1, 3, 2][index % 4] ?? 0;
  if (longest === 0) return [9, 4][index] ?? (index < 10 ? others : 0);
  if (index === 0) return longest > 200 ? longest + 7 : 2 * longest + 3;
  if (index === 1) return Math.min(longest, 300);
  return index < 10 ? others : 0;
}

/** Which listings an entity has: one, or one for each parent record. */
function scopesOf({ of }: Listing, account: Account): readonly Scope['params'][] {
  const places = Object.entries(of).map(([param, place]) => ({ param, ...placeOf(place) }));
  const last = places.at(-1);
  if (last === undefined) return [{}];
  const parents = [...(account.get(last.entity)?.scopes.values() ?? [])];
  return parents.flatMap(({ params, rows }) =>
    rows.map(({ record }) => {
      const values = places.map(({ param, entity, field }) => {
        const value = entity === last.entity ? textAt(record, field) : params[param];
        return [param, value ?? ''] as const;
      });
      return Object.fromEntries(values);
    }),
  );
}

function placeOf(text: string): { readonly entity: string; readonly field: string } {
  const [entity = '', ...field] = text.split('.');
  return { entity, field: field.join('.') };
}

function textAt(record: JsonObject, field: string): string {
  let value: JsonValue | undefined = record;
  for (const name of field.split('.')) value = isJsonObject(value) ? value[name] : undefined;
  return textOf(value);
}

/** Equal for equal parameters. */
export function scopeText(params: Scope['params']): string {
  return JSON.stringify(Object.entries(params).toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

/** Fields that tell its records apart, since other listings are found by them. */
function namedBy({ entities }: Vendor, entity: string): readonly string[] {
  const places = Object.values(entities).flatMap(({ of = {} }) => Object.values(of).map(placeOf));
  return places.flatMap((place) =>
    place.entity === entity && !place.field.includes('.') ? [place.field] : [],
  );
}

function isInteger({ type }: JsonObject): boolean {
  return type === 'integer' || (Array.isArray(type) && type.includes('integer'));
}
