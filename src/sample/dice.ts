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
    return text.length === length ? text : text.slice(0, length);
  }

  /** Looks like a random (version 4) UUID. */
  uuid(): string {
    return toUuid(this.hex(32));
  }
}

const fourDigits = Array.from({ length: 0x1_0000 }, (_, number) => number.toString(16).padStart(4, '0'));

/** Separate dice for every path, in any order of asking: `diceFor(seed, kind.campaign, 7)`. */
export function diceFor(seed: number, a: number, b = 0, c = 0): Dice {
  return new Dice(mix(mix(mix(seed | 0, a), b), c));
}

/** One 32-bit number from two. */
export function mix(left: number, right: number): number {
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

function toUuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
