import { dayOf, type Dice, diceFor, numberOf, revisionTime } from './sample-values.ts';

/** A thing of a sample account, such as a folder or a page, as the revisions so far have left it. */
export interface Thing {
  readonly kind: string;
  /** Decides every value that no revision changes. */
  readonly index: number;
  readonly id: string;
  /** Type of a block or segment; number of members of a list. */
  readonly type?: string | undefined;
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

/** Made and edited now, unless it says otherwise. */
type NewThing = Pick<Thing, 'kind' | 'index' | 'type' | 'text' | 'parent'> & {
  readonly createdAt?: number;
  readonly editedAt?: number;
};

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
  readonly #byKind = new Map<string, Thing[]>();
  readonly #byParent = new Map<Thing | null, Thing[]>();
  readonly #byName = new Map<string, Thing>();
  readonly #returns: { readonly thing: Thing; readonly in: number }[] = [];
  readonly #idOf: IdOf;
  readonly #shown: readonly string[];

  /** `shown`: kinds that show what lies in them; whatever changes there edits them too. */
  constructor(seed: number, idOf: IdOf, shown: readonly string[]) {
    this.seed = seed;
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

  idOf(kind: string, index: number): string {
    return this.#idOf(kind, this.dice({ kind, index }), index);
  }

  add({ createdAt = this.now, editedAt = createdAt, ...rest }: NewThing): Thing {
    const id = this.idOf(rest.kind, rest.index);
    const [madeIn, editedIn] = [this.revision, this.revision];
    const thing: Thing = { ...rest, id, createdAt, editedAt, madeIn, editedIn, edits: 0, away: null };
    listIn(this.#byKind, thing.kind).push(thing);
    listIn(this.#byParent, thing.parent).push(thing);
    this.#byName.set(`${thing.kind} ${id}`, thing);
    this.#editAround(thing);
    return thing;
  }

  /** Adds a thing of the revision under way; `place` tells several of a kind apart. */
  addNew(kind: string, parent: Thing | null, text: string, place = 0, type?: string): Thing {
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
    this.edit(thing, `${thing?.text.split(' (')[0]} (${dayOf(this.revision)})`);
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
    const siblings = listIn(this.#byParent, thing.parent);
    siblings.splice(siblings.indexOf(thing), 1);
    listIn(this.#byParent, parent).push(thing);
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
    const things = parent === undefined ? listIn(this.#byKind, kind) : listIn(this.#byParent, parent);
    return things.filter((thing) => thing.kind === kind && isThere(thing));
  }

  named(kind: string, id: string): Thing | undefined {
    const thing = this.#byName.get(`${kind} ${id}`);
    return thing !== undefined && isThere(thing) ? thing : undefined;
  }
}

function listIn<Key>(lists: Map<Key, Thing[]>, key: Key): Thing[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

/** A thing in the trash is there. */
function isThere({ away, parent }: Thing): boolean {
  return away !== 'deleted' && (parent === null || isThere(parent));
}
