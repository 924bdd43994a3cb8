import { fileURLToPath } from 'node:url';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { copiedFile } from '../core/program-files.ts';
import { readYaml } from '../definitions/read-yaml.ts';

/** Deterministic chance: the same seed throws the same values. A class, because a page of members makes thousands. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** 0 to 2^32 - 1. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    return scramble(this.#state);
  }

  /** 0 to limit - 1. */
  below(limit: number): number {
    return Math.floor((this.next() / 0x1_0000_0000) * limit);
  }

  /** True in `percent` of 100 throws. */
  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<Value>(values: readonly [Value, ...Value[]]): Value {
    return values[this.below(values.length)] ?? values[0];
  }

  /** Lower-case hex digits. */
  hex(length: number): string {
    let text = '';
    // Four digits at a time, from a table: half of a member's time went into padding numbers.
    while (text.length < length) {
      const number = this.next();
      text += (fourDigits[number >>> 16] ?? '') + (fourDigits[number & 0xffff] ?? '');
    }
    return text.slice(0, length);
  }

  /** Looks like a random (version 4) UUID. */
  uuid(): string {
    return `${this.hex(8)}-${this.hex(4)}-4${this.hex(3)}-a${this.hex(3)}-${this.hex(12)}`;
  }
}

const fourDigits = Array.from({ length: 0x1_0000 }, (_, number) => number.toString(16).padStart(4, '0'));

/** Separate dice for every path, in any order of asking: `diceFor(seed, kind, index)`. */
export function diceFor(seed: number, ...path: readonly number[]): Dice {
  let mixed = seed | 0;
  for (const step of path) mixed = mix(mixed, step);
  return new Dice(mixed);
}

/** A number for a word, to be a step of a path. */
export function numberOf(word: string): number {
  return Buffer.from(word).reduce(mix, word.length);
}

function mix(left: number, right: number): number {
  return scramble((Math.imul(left, 0x85ebca6b) ^ right) + 0x9e3779b9) | 0;
}

/** The finalizer of splitmix32: every input bit reaches every output bit. */
function scramble(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

const people = readSample('people');
const namesOf = (kind: string) => people.texts(kind).map((name) => name.split('/'));
const [firsts, lasts] = [namesOf('firsts'), namesOf('lasts')];

/** The person with this number. Addresses are unique, because the number is a part of them. */
export function personAt(seed: number, number: number) {
  const dice = diceFor(seed, 0x70656f70, number);
  const nameOf = (names: readonly (readonly string[])[]) => names[dice.below(names.length)] ?? [];
  const [[first = '', firstInAddress = ''], [last = '', lastInAddress = '']] = [
    nameOf(firsts),
    nameOf(lasts),
  ];
  const domain = dice.pick(['example.test', 'mail.example.test', 'bücher.example.test']);
  // Some people type their address with capitals; its hash is still that of the lower-case form.
  const typed = dice.chance(10) ? firstInAddress.toUpperCase() : firstInAddress;
  const email = `${typed}.${lastInAddress}.${number.toString(36)}@${domain}`;
  return { first, last, name: `${first} ${last}`.trim(), email };
}

/** Values of the names in a template; undefined: the field is left out. */
export type Values = Readonly<Record<string, JsonValue | undefined>>;

type Make = (values: Values, dice: Dice) => JsonValue | undefined;

/** The data of a sample account: `src/sample/accounts/<definition>.yaml`. */
interface SampleFile {
  /** Texts that things of a kind have in turns, or that records choose from. */
  readonly texts: Readonly<Record<string, readonly string[]>>;
  /** See `templatesOf`. */
  readonly records?: JsonObject;
  /** Entities that list things of a kind. */
  readonly entities?: Readonly<Record<string, DeclaredEntity>>;
}

interface DeclaredEntity {
  /** The kind of things; absent: the entity's name. */
  readonly of?: string;
  readonly id?: string;
  readonly below?: readonly [kind: string, param: string];
  readonly filters?: readonly string[];
}

export type Sample = ReturnType<typeof readSample>;

/** Reads the data of a definition's sample account. */
export function readSample(definition: string) {
  const { data, problems } = readYaml(fileURLToPath(copiedFile(`sample/accounts/${definition}.yaml`)));
  if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join());
  const { texts: lists, records = {}, entities = {} } = data as SampleFile;
  const texts = (kind: string): readonly string[] => lists[kind] ?? [];
  return {
    entities,
    texts,
    template: templatesOf(records),
    /** One of the texts of a kind, in turns; later rounds are numbered: `Roadmap`, `Roadmap 2`. */
    textAt: (kind: string, index: number): string => {
      const titles = texts(kind);
      const title = titles[index % titles.length] ?? '';
      const round = Math.floor(index / titles.length) + 1;
      // An empty title stays empty.
      return round === 1 || title === '' ? title : `${title} ${round}`;
    },
  };
}

/**
 * Makes records from templates by their names. In a template `$name` is a value that is given, alone or within a text,
 * `<90` a number from 0 to 89, `rate` one from 0 to 1, `hex10` so many hex digits, `maybe` true or false, and `a | b`
 * one of several texts; a field `name?` is in a quarter of the records. `other` is the template for names that have
 * none; without it their records are empty.
 */
function templatesOf(templates: JsonObject) {
  const makes = new Map(Object.entries(templates).map(([name, one]) => [name, makerOf(one)]));
  return (name: string, values: Values, dice: Dice): JsonObject => {
    const record = (makes.get(name) ?? makes.get('other'))?.(values, dice);
    return isJsonObject(record) ? record : {};
  };
}

function makerOf(template: JsonValue): Make {
  if (isJsonArray(template)) {
    const makes = template.map(makerOf);
    return (values, dice) => makes.map((make) => make(values, dice) ?? null);
  }
  if (isJsonObject(template)) {
    const fields = Object.entries(template).map(
      ([name, field]) => [name.replace('?', ''), makerOf(field), name.endsWith('?')] as const,
    );
    return (values, dice) => {
      const record: Record<string, JsonValue> = {};
      for (const [name, make, isRare] of fields) {
        const value = isRare && !dice.chance(25) ? undefined : make(values, dice);
        if (value !== undefined) record[name] = value;
      }
      return record;
    };
  }
  return typeof template === 'string' ? textMaker(template) : () => template;
}

function textMaker(template: string): Make {
  if (template === 'maybe') return (_, dice) => dice.chance(50);
  if (template === 'rate') return (_, dice) => dice.below(101) / 100;
  const [, kind, argument = ''] = /^(\$|<|hex)(\w+)$/.exec(template) ?? [];
  if (kind === '$') return (values) => values[argument];
  if (kind === '<') return (_, dice) => dice.below(Number(argument));
  if (kind === 'hex') return (_, dice) => dice.hex(Number(argument));
  const choices = template.split(' | ');
  return (values, dice) =>
    (choices[dice.below(choices.length)] ?? '').replaceAll(/\$(\w+)/g, (_, name: string) =>
      textOf(values[name]),
    );
}

/** Milliseconds since the epoch. Samples lie in the past, whenever they are made. */
export const sampleStart = Date.UTC(2022, 11, 27, 8, 12, 59);
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** The latest revision: with it too every time of a sample account lies in the past. */
export const maxSampleRevision = 200;

/**
 * Milliseconds since the epoch at which a revision begins: 9:00 UTC, a day after the one before. Later than every time
 * of an account at revision 0; all changes of a revision come within the next ten hours.
 */
export function revisionTime(revision: number): number {
  return Date.UTC(2026, 0, 6 + revision, 9);
}

/** The day of a revision as people write it: `7 January`. */
export function dayOf(revision: number): string {
  const options = { day: 'numeric', month: 'long', timeZone: 'UTC' } as const;
  return new Date(revisionTime(revision)).toLocaleDateString('en-GB', options);
}

/** A time in seconds with the zone that a service writes: `2022-12-27T08:12:59Z`. */
export function isoSeconds(ms: number, zone = 'Z'): string {
  return `${new Date(ms).toISOString().slice(0, 19)}${zone}`;
}

/** An id as text, whether it came as text or as a number; '' for what can be no id. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
