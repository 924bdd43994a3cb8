import { knownOrMade } from '../core/grouped.ts';
import { type JsonObject, type JsonValue, valueAtKey } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { timeMs } from '../core/clock.ts';
import { badParameter, notFound } from '../service/api-error.ts';
import type { ProviderFile } from '../service/provider.ts';
import { dayOf, type Dice, diceFor, numberOf, revisionTime, type Sample, textOf } from './sample-values.ts';

/**
 * `small`: a few seconds' walk with something of everything. `tiny`: few calls. `{ members }`: one mailing list with
 * that many members, up to a million; a workspace of notes and a library are then `tiny`.
 */
export type SampleSize = 'tiny' | 'small' | { readonly members: number };

/** A third-party account as its connector sees it. Tests wrap it to make it behave otherwise. */
export interface SampleAccount {
  /**
   * `params` as the definition types them. Throws `ApiError` 404 for an unknown parent, 400 for a value it cannot use.
   */
  list(entity: string, params: Params): Listing;
  /** Null when there is no such record. */
  get(entity: string, params: Params): JsonObject | null;
  /** Null when there is no such file. Absent: the account has no files. */
  file?(entity: string, params: Params): ProviderFile | null;
}

/** The records that a list call names, filtered and sorted, before a page is cut out of them. */
export interface Listing {
  /** Gives at most `limit` records from `offset` (from 0); fewer only at the end. */
  slice(offset: number, limit: number): readonly JsonObject[];
  /** Metadata of the connector about the list, without page tokens; null: there is none. */
  readonly metadata: JsonObject | null;
}

/** A listing whose records are made when a page with them is asked for. */
export function computedListing<One>(
  all: readonly One[],
  record: (one: One, position: number) => JsonObject,
): Listing {
  const slice = (offset: number, limit: number): readonly JsonObject[] =>
    all.slice(offset, offset + limit).map((one, at) => record(one, offset + at));
  return { slice, metadata: null };
}

/** One entity of an account. */
export interface SampleEntity {
  readonly list: (params: Params) => Listing;
  readonly get?: (params: Params) => JsonObject | undefined;
}

/** An account of these entities, by their names. */
export function accountOf(named: Iterable<readonly [string, SampleEntity]>): SampleAccount {
  const entities = new Map(named);
  return {
    list(entity, params) {
      const listed = entities.get(entity);
      if (listed === undefined) throw notFound(`The sample account has nothing under '${entity}'.`);
      return listed.list(params);
    },
    get: (entity, params) => entities.get(entity)?.get?.(params) ?? null,
  };
}

export interface EntityOptions {
  /** Finds the thing that `get` asks for, or names the parameter with its id; absent: there is no `get`. */
  readonly id?: string | ((params: Params) => Thing | undefined);
  /** The kind of thing that records are listed under, and the parameter that names it. */
  readonly below?: readonly [string, string] | undefined;
  /** See `filterTests`. */
  readonly filters?: readonly string[];
  /** Filters and orders look at these fields; absent: those of the record. */
  readonly facts?: (thing: Thing) => JsonObject;
  readonly where?: (thing: Thing, params: Params) => boolean;
}

/** An entity with a record for each thing of a kind, in the order in which the things came. */
export function entityOf(
  things: Things,
  kind: string,
  record: (thing: Thing) => JsonObject,
  { id, below, filters = [], facts = record, where = () => true }: EntityOptions,
): SampleEntity {
  // The next pages are of the same things.
  let last: { readonly name: string; readonly listed: readonly Thing[] } | null = null;
  const select = (params: Params): readonly Thing[] => {
    const parent = below === undefined ? undefined : knownThing(things, below[0], params[below[1]]);
    const tests = filterTests(filters, params);
    const passes = (thing: Thing): boolean => {
      if (!where(thing, params)) return false;
      const seen = tests.length === 0 ? {} : facts(thing);
      return tests.every((test) => test(seen));
    };
    return sorted(things.of(kind, parent).filter(passes), facts, params);
  };
  return {
    list: (params) => {
      const name = JSON.stringify({ ...params, offset: null, count: null });
      if (last?.name !== name) last = { name, listed: select(params) };
      return computedListing(last.listed, record);
    },
    get: (params) => {
      const thing = typeof id === 'string' ? things.named(kind, textOf(params[id])) : id?.(params);
      return thing === undefined || !where(thing, {}) ? undefined : record(thing);
    },
  };
}

/** Throws 404 where there is none. */
export function knownThing(things: Things, kind: string, id: JsonValue | undefined): Thing {
  const thing = things.named(kind, textOf(id));
  if (thing !== undefined) return thing;
  throw notFound(`There is nothing under ${kind} with the id ${JSON.stringify(textOf(id).slice(0, 60))}.`);
}

/**
 * The filters that parameters ask for. `fields`: dotted paths of the fields that parameters are held against: those of
 * the same name, with or without `_at`; `since_<name>` and `<name>_since` (and `before`, both inclusive) hold its time
 * against theirs, and a record without a time is left out. Throws 400 for a time in another form than ISO 8601.
 */
function filterTests(fields: readonly string[], params: Params) {
  return Object.entries(params).flatMap(([name, value]) => {
    const [, bound] = /(since|before)/.exec(name) ?? [];
    const plain = name.replace(/^(since|before)_|_(since|before)$/, '');
    const path = fields.find((field) => [plain, `${plain}_at`].includes(field.split('.').at(-1) ?? ''));
    if (path === undefined) return [];
    if (bound === undefined) return [(record: JsonObject) => valueAtKey(record, path) === value];
    const passes = timeTest(name, value);
    return [
      (record: JsonObject) => {
        const time = timeAt(record, path);
        return time !== null && passes(time);
      },
    ];
  });
}

/** Whether a time passes a parameter with `since` or `before` in its name. Throws 400 for a value that is no time. */
export function timeTest(name: string, value: JsonValue): (time: number) => boolean {
  const bound = timeMs(value);
  if (bound === null) {
    throw badParameter(
      name,
      `Invalid value for parameter '${name}'; expected an ISO 8601 time such as 2015-10-21T15:41:36+00:00`,
    );
  }
  return name.includes('since') ? (time) => time >= bound : (time) => time <= bound;
}

/** By `sort_field` and `sort_dir` if the former is given, else as they are. Equal values keep their order. */
function sorted(
  things: readonly Thing[],
  facts: (thing: Thing) => JsonObject,
  { sort_field: path, sort_dir: direction }: Params,
): readonly Thing[] {
  if (typeof path !== 'string') return things;
  const timed = things.map((thing) => ({ thing, time: timeAt(facts(thing), path) ?? 0 }));
  timed.sort((left, right) => left.time - right.time);
  const ordered = timed.map(({ thing }) => thing);
  return direction === 'DESC' ? ordered.reverse() : ordered;
}

function timeAt(record: JsonObject, path: string): number | null {
  const value = valueAtKey(record, path);
  if (typeof value === 'number') return value;
  return typeof value === 'string' && value !== '' ? Date.parse(value) : null;
}

/** Makes a value for each key once, and keeps it while the key exists. */
export function remembered<Key extends object, Value extends object | string>(make: (key: Key) => Value) {
  const known = new WeakMap<Key, Value>();
  return (key: Key) => knownOrMade(known, key, () => make(key));
}

/** A thing of a sample account, such as a folder or a page, as the revisions so far have left it. */
export interface Thing {
  readonly kind: string;
  /** Decides every value that no revision changes. */
  readonly index: number;
  readonly id: string;
  /** Type of a block or segment; status of a member; number of members of a list. */
  type?: string | undefined;
  parent: Thing | null;
  /** Title, name or text. */
  text: string;
  readonly createdAt: number;
  /** The revision that made it; 0: it was there before all of them. */
  readonly madeIn: number;
  editedAt: number;
  /** The revision that edited it last, and how many did; 0: none. */
  editedIn: number;
  edits: number;
  away: 'deleted' | 'trashed' | null;
}

/** Made and edited now, at the top, with the text that the sample has for its place, unless it says otherwise. */
interface NewThing extends Partial<Pick<Thing, 'type' | 'text' | 'parent'>> {
  readonly kind: string;
  readonly index: number;
  /** Not the id of this thing alone: `named` does not find it. */
  readonly id?: string;
  readonly createdAt?: number | undefined;
  readonly editedAt?: number | undefined;
}

type IdOf = (kind: string, dice: Dice, index: number) => string;

/** The first index of what revisions add. */
export const firstAdded = 100_000;

/**
 * The things of an account, all kept in memory: a few thousand at most. A script says what a revision does to them;
 * the seed and the number of the revision decide everything.
 */
export class Things {
  revision = 0;
  readonly seed: number;
  readonly sample: Sample;
  readonly #byKind = new Map<string, Thing[]>();
  readonly #byParent = new Map<string, Map<Thing | null, Thing[]>>();
  readonly #byName = new Map<string, Thing>();
  readonly #returns: { readonly thing: Thing; readonly in: number }[] = [];
  readonly #idOf: IdOf;
  readonly #shown: readonly string[];

  /** `shown`: kinds that show what lies in them; whatever changes there edits them too. */
  constructor(seed: number, sample: Sample, idOf: IdOf, shown: readonly string[]) {
    this.seed = seed;
    this.sample = sample;
    this.#idOf = idOf;
    this.#shown = shown;
  }

  /** Dice of a thing; other ones for each `use`. The first of use 0 throw its id. */
  dice({ kind, index }: Pick<Thing, 'kind' | 'index'>, use = 0): Dice {
    return diceFor(this.seed, numberOf(kind), index, use);
  }

  /** When the revision under way changes things, in milliseconds since the epoch. */
  get now(): number {
    return revisionTime(this.revision) + 60_000;
  }

  /** The day of the revision under way. */
  get day(): string {
    return dayOf(this.revision);
  }

  idOf(kind: string, index: number): string {
    return this.#idOf(kind, this.dice({ kind, index }), index);
  }

  add({ kind, index, id: given, type, parent = null, createdAt = this.now, ...rest }: NewThing): Thing {
    const { text = this.sample.textAt(kind, index), editedAt = createdAt } = rest;
    const id = given ?? this.idOf(kind, index);
    const [madeIn, editedIn] = [this.revision, this.revision];
    const made = { kind, index, id, type, parent, text, createdAt, madeIn, editedAt, editedIn };
    const thing: Thing = { ...made, edits: 0, away: null };
    listIn(this.#byKind, kind).push(thing);
    this.#below(kind, parent).push(thing);
    if (given === undefined) this.#byName.set(`${kind} ${id}`, thing);
    this.#editAround(thing);
    return thing;
  }

  /** Adds so many things of a kind, with the indexes from 0. */
  fill(kind: string, count: number, make: (index: number) => Omit<NewThing, 'kind' | 'index'>) {
    return Array.from({ length: count }, (_, index) => this.add({ kind, index, ...make(index) }));
  }

  #below(kind: string, parent: Thing | null): Thing[] {
    return listIn(
      knownOrMade(this.#byParent, kind, () => new Map()),
      parent,
    );
  }

  /** Adds a thing of the revision under way; `place` tells several of a kind apart. */
  addNew(
    kind: string,
    parent: Thing | null,
    text = this.sample.textAt(kind, this.revision),
    place = 0,
    type?: string,
  ): Thing {
    return this.add({ kind, index: firstAdded + this.revision * 10 + place, text, parent, type });
  }

  edit(thing: Thing | null | undefined, text = thing?.text): void {
    if (thing === null || thing === undefined || text === undefined || this.revision === 0) return;
    Object.assign(thing, { text, editedAt: this.now, editedIn: this.revision, edits: thing.edits + 1 });
    this.#editAround(thing);
  }

  #editAround({ parent }: Thing): void {
    if (parent !== null && this.#shown.includes(parent.kind)) this.edit(parent);
  }

  /** Marks a text with the day of the revision under way: `Roadmap (7 January)`. */
  rename(thing: Thing | undefined): void {
    this.edit(thing, `${thing?.text.split(' (')[0]} (${this.day})`);
  }

  /** Takes a thing away until so many revisions later. */
  take(thing: Thing | undefined, revisions = 2, away: Thing['away'] = 'deleted'): void {
    if (thing === undefined || thing.away !== null) return;
    this.edit(thing);
    thing.away = away;
    this.#returns.push({ thing, in: this.revision + revisions });
  }

  /** Moves a thing with all that lies in it to the end of another parent. */
  move(thing: Thing | undefined, parent: Thing | null | undefined): void {
    if (thing === undefined || parent === undefined) return;
    this.edit(thing);
    const siblings = this.#below(thing.kind, thing.parent);
    siblings.splice(siblings.indexOf(thing), 1);
    this.#below(thing.kind, parent).push(thing);
    thing.parent = parent;
    this.edit(thing);
  }

  /** The things that were there before all revisions, also those that are away. */
  first(kind: string, filter: (thing: Thing) => boolean = () => true): readonly Thing[] {
    return listIn(this.#byKind, kind).filter((thing) => thing.madeIn === 0 && filter(thing));
  }

  /** One of them; each revision has another. */
  turn(kind: string, place = 0, filter?: (thing: Thing) => boolean): Thing | undefined {
    const first = this.first(kind, filter);
    return first[(this.revision * 11 + place) % first.length];
  }

  /** The revisions 1, 4, 7 ... make things of a kind that are away in the one after. */
  comeAndGo(kind: string, add: () => void, away: Thing['away'] = 'deleted'): void {
    if (this.revision % 3 === 1) add();
    if (this.revision % 3 !== 2) return;
    for (const thing of this.of(kind)) if (thing.madeIn === this.revision - 1) this.take(thing, 1, away);
  }

  play(revisions: number, script: (things: Things) => void): void {
    while (this.revision < revisions) {
      this.revision += 1;
      for (const { thing, in: revision } of this.#returns) {
        if (revision !== this.revision) continue;
        thing.away = null;
        this.edit(thing);
      }
      script(this);
    }
  }

  /** Things that are there, with everything they lie in; of one parent, if one is given. */
  of(kind: string, parent?: Thing | null): readonly Thing[] {
    return (parent === undefined ? listIn(this.#byKind, kind) : this.#below(kind, parent)).filter(isThere);
  }

  named(kind: string, id: string): Thing | undefined {
    const thing = this.#byName.get(`${kind} ${id}`);
    return thing !== undefined && isThere(thing) ? thing : undefined;
  }
}

function listIn<Key>(lists: Map<Key, Thing[]>, key: Key): Thing[] {
  return knownOrMade(lists, key, () => []);
}

/** A thing in the trash is there. */
function isThere({ away, parent }: Thing): boolean {
  return away !== 'deleted' && (parent === null || isThere(parent));
}
