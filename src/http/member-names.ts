import { skipString, type Scan } from './skip-json.ts';

/** An answer with more different names is refused: its names are data. */
const maxNames = 10_000;
/** How many names after the last one are compared before the name is looked up. */
const maxGuesses = 3;

/**
 * The names of members, each with a number. Records mostly have the same names in the same order: the next one is
 * guessed from the last, and its bytes are compared, so that no string is made of a known name.
 */
export class MemberNames {
  readonly names: string[] = [];
  /** Behind the closing quote of the name that was read last. */
  end = 0;
  readonly #scan: Scan;
  readonly #numbers = new Map<string, number>();
  /** Where each name was met first, behind its opening quote, and how many bytes it has with the closing one. */
  readonly #starts: number[] = [];
  readonly #lengths: number[] = [];
  /** The name that followed a name when it was looked up last; the first element: what an object began with. */
  readonly #nextNames: number[] = [-1];

  constructor(scan: Scan) {
    this.#scan = scan;
  }

  /** The number of the name whose text begins at `start`, -1 where it cannot be read. `last`: the one before, or -1. */
  read(start: number, last: number): number {
    let guess = this.#nextNames[last + 1] ?? -1;
    for (let guesses = 0; guess !== -1 && guesses < maxGuesses; guesses += 1) {
      if (this.#isAt(guess, start)) return guess;
      guess = this.#nextNames[guess + 1] ?? -1;
    }
    const number = this.#lookUp(start);
    if (number !== -1) this.#nextNames[last + 1] = number;
    return number;
  }

  #isAt(number: number, start: number): boolean {
    const { bytes } = this.#scan;
    const length = this.#lengths[number] ?? 0;
    const first = this.#starts[number] ?? 0;
    for (let at = 0; at < length; at += 1) if (bytes[first + at] !== bytes[start + at]) return false;
    this.end = start + length;
    return true;
  }

  #lookUp(start: number): number {
    const end = skipString(this.#scan, start);
    if (end === -1) return -1;
    this.end = end;
    const name = decodeString(this.#scan, start - 1, end);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.names.length;
    if (number === maxNames) return -1;
    this.names.push(name);
    this.#numbers.set(name, number);
    this.#starts.push(start);
    this.#lengths.push(end - start);
    this.#nextNames.push(-1);
    return number;
  }
}

/** A string with its quotes. */
export function decodeString({ bytes, isAscii }: Scan, start: number, end: number): string {
  const text = bytes.toString(isAscii ? 'latin1' : 'utf8', start + 1, end - 1);
  // `as`: a string literal makes a string.
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}
