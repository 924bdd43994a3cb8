import { canonicalJson } from '../../src/core/canonical-json.ts';
import { parseJsonText } from '../../src/http/lossless-json.ts';

const spaces = [' ', '\n', '\t', '\r\n', '   '];
const pieces = [
  'a',
  'Z',
  ' ',
  '!',
  '/',
  '',
  'id',
  'é',
  '\u2028',
  '﻿',
  '😀',
  '漢',
  '"}',
  ',[',
  '1234567890123456',
  '\\"',
  '\\\\',
  '\\/',
  '\\b',
  '\\f',
  '\\n',
  '\\r',
  '\\t',
  '\\u0041',
  '\\u00e9',
  '\\u0000',
  '\\uD83D\\uDE00',
  '\\ud800',
  '\\uDFff',
  '\\u005c',
  '\\u0022',
].map((piece) => piece.replace(/^"/, '\\"'));
/** The same few, so that names come again: some of them spelled in two ways, or numbers to JavaScript. */
const names = [
  'id',
  '\\u0069d',
  'name',
  'a',
  'b',
  'a!',
  'A',
  'ab',
  '',
  ' ',
  '_',
  '__proto__',
  '__prot\\u006f__',
  '__proto__1',
  '0',
  '1',
  '10',
  '-1',
  '1a',
  'é',
  '\\u00e9',
  '😀',
  '～',
  'a\\"',
  'a\\\\',
  'result',
  'constructor',
];
const numbers = [
  '0',
  '-0',
  '1',
  '-1',
  '0.0',
  '-0.0',
  '0.1',
  '-0.5',
  '1.0',
  '1.10',
  '1.5',
  '1e5',
  '1E+2',
  '1e-2',
  '0e0',
  '0e-99',
  '0.000001',
  '0.0000001',
  '0.00000123',
  '-0.000000123',
  '123456789012345',
  '1234567890123456',
  '999999999999999',
  '9007199254740991',
  '9007199254740993',
  '-9007199254740993',
  '12345678901234567890',
  '1e99',
  '-1.5E-400',
  '0.123456789012345',
  '0.1234567890123456',
  '12345678.1234567',
  '1.7976931348623157',
  '100',
  '64.70588235294117',
];

/** Texts of JSON, spelled in every way that JSON allows. */
export class JsonSpellings {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  oneOf<Item>(items: readonly [Item, ...Item[]] | readonly Item[]): Item {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError('expected items, got none');
    return item;
  }

  space(): string {
    return this.below(8) === 0 ? this.oneOf(spaces) : '';
  }

  value(depth: number): string {
    const kind = this.below(depth > 0 ? 12 : 6);
    if (kind < 3) return this.string();
    if (kind === 3) return this.oneOf(['true', 'false', 'null']);
    if (kind < 6) return this.number();
    if (kind < 9) return this.array(this.below(4), depth - 1);
    return kind === 11 ? this.#tidy(depth) : this.object(depth - 1);
  }

  /** With its quotes, spelled in any way. */
  name(): string {
    return `"${this.oneOf(names)}"`;
  }

  /** One of these names, with its quotes. */
  column(columns: readonly string[]): string {
    return JSON.stringify(this.oneOf(columns));
  }

  string(): string {
    return `"${Array.from({ length: this.below(5) }, () => this.oneOf(pieces)).join('')}"`;
  }

  number(): string {
    if (this.below(2) === 0) return this.oneOf(numbers);
    const digits = String(this.#random() * 10 ** this.below(18));
    return digits.includes('e') ? '7' : this.oneOf(['', '-']) + digits;
  }

  array(length: number, depth: number): string {
    const elements = Array.from({ length }, () => this.space() + this.value(depth) + this.space());
    return `[${elements.join(',') || this.space()}]`;
  }

  object(depth: number): string {
    const members = Array.from({ length: this.below(5) }, () => this.member(this.name(), depth));
    return `{${members.join(',') || this.space()}}`;
  }

  /** `name`: with its quotes. */
  member(name: string, depth: number, value = this.value(depth)): string {
    return `${this.space()}${name}${this.space()}:${this.space()}${value}${this.space()}`;
  }

  /** As this program writes it. */
  #tidy(depth: number): string {
    return canonicalJson(parseJsonText(this.oneOf([this.object(depth - 1), this.array(3, depth - 1)])));
  }
}
