import type { JsonObject, JsonValue } from '../../../src/core/json.ts';

/** Few enough values that conditions meet and miss, and the odd ones among them. */
export const words: readonly string[] = [
  'Quarterly',
  'quartely',
  'REPORT',
  'réport',
  'plan',
  'B2',
  'Straße',
  'ΟΔΟΣ',
  '2024',
  '中文',
  'a',
];
export const texts: readonly string[] = [
  '',
  ' ',
  'a',
  'A',
  'ab',
  'a%b',
  'a_b',
  'a\\b',
  'a\0b',
  'b*[c]?',
  '😀',
  '\uE000',
  'é',
  '"',
  'null',
  '1',
];
/** Instants in several spellings, a few of them the same, and what only looks like one. */
export const times: readonly string[] = [
  '2026-03-01T09:00:00Z',
  '2026-03-01T09:00:00+00:00',
  '2026-03-01T09:00:00.000Z',
  '2026-03-01T09:00Z',
  '2026-03-01T09:00:00',
  '2026-03-01T11:00:00+0200',
  '2026-03-01T00:30:00-08:30',
  '2026-03-01T08:30:00.25Z',
  '2026-03-01T09:00:00.0000000001Z',
  '2026-03-01T09:00:00,5+00',
  '2026-02-28T22:00:00-11:00',
  '2026-03-02T08:59:59+23:59',
  '2026-03-01T20:30:00 +1130',
  '2026-03-01T09:00:00 UTC',
  '2026-03-01',
  '2026-03',
  '2026-03-01T',
  '2026-03-01T09:00:00A',
  '2026-02-30T09:00:00Z',
  '2026-03-01T24:00:00Z',
  '2026-13-01',
  '9999-12-31T23:30:00-01:00',
];
export const numbers: readonly number[] = [0, 1, -1, 2, 10, 1.5, -2.25, 1e300, 9_007_199_254_740_991];
export const longIntegers: readonly bigint[] = [
  9_007_199_254_740_993n,
  -9_007_199_254_740_993n,
  9_223_372_036_854_775_807n,
  10n ** 25n,
];
const comparing = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in'];
const ofTexts = ['like', 'keyword', 'fuzzy', 'contains'];
const names = ['a', 'b', 'a.b', '__proto__', 'constructor', 'name', 'value', 'x y', ''];

/** Draws random records, filters, sorts and fields of `things`. */
export class Draw {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  one<Value>(values: readonly Value[]): Value {
    const value = values[this.below(values.length)];
    if (value === undefined) throw new Error('nothing to choose from');
    return value;
  }

  many<Value>(most: number, draw: () => Value): Value[] {
    return Array.from({ length: this.below(most + 1) }, draw);
  }

  text(): string {
    return this.one([
      () => this.one(times),
      () => this.one(texts),
      () => this.one(words),
      () => this.sentence(),
    ])();
  }

  sentence(): string {
    return Array.from({ length: 1 + this.below(4) }, () => this.one(words)).join(this.one([' ', ', ', '-']));
  }

  number(): number | bigint {
    return this.below(5) === 0 ? this.one(longIntegers) : this.one(numbers);
  }

  scalar(): string | number | bigint | boolean | null {
    return this.one([
      () => this.text(),
      () => this.number(),
      () => this.below(2) === 0,
      () => null,
      () => '\ud800',
    ])();
  }

  value(depth = 3): JsonValue {
    const kind = this.below(depth === 0 ? 1 : 3);
    if (kind === 0) return this.scalar();
    if (kind === 1) return this.many(3, () => this.value(depth - 1));
    return this.object(depth);
  }

  object(depth = 3): JsonObject {
    const members = Object.create(null) as Record<string, JsonValue>;
    for (const name of this.many(3, () => this.one(names))) members[name] = this.value(depth - 1);
    return members;
  }

  record(id: string): JsonObject {
    const record: Record<string, JsonValue> = { id };
    const fill = (name: string, draw: () => JsonValue): void => {
      const fate = this.below(8);
      // Absent, null, or now and then of another type.
      if (fate > 1) record[name] = fate === 2 && name !== 'loose' ? this.scalar() : draw();
      else if (fate === 1) record[name] = null;
    };
    for (const name of ['title', 'remark', 'kind']) fill(name, () => this.text());
    fill('amount', () => this.number());
    fill('ratio', () => this.one(numbers));
    fill('is_open', () => this.below(2) === 0);
    fill('tags', () => this.many(4, () => this.value(1)));
    fill('body', () => this.object());
    fill('props', () => this.object());
    fill('whatever', () => this.value());
    fill('loose', () => this.value());
    return record;
  }

  filter(depth = 3): JsonObject {
    const kind = this.below(depth === 0 ? 1 : 6);
    if (kind === 1) return { and: this.many(3, () => this.filter(depth - 1)) };
    if (kind === 2) return { or: this.many(3, () => this.filter(depth - 1)) };
    if (kind === 3) return { not: this.filter(depth - 1) };
    if (kind === 4) return { any: { [this.openPath()]: this.inner(depth - 1) } };
    if (kind === 5) return { ...this.leaf(), ...this.leaf() };
    return this.leaf();
  }

  sort(): readonly Readonly<Record<string, string>>[] {
    const paths = this.many(3, () => this.one([() => this.openPath(), () => this.scalarField()])());
    return [...new Set(paths)].map((path) => ({ [path]: this.one(['asc', 'desc']) }));
  }

  fields(): readonly (string | readonly string[])[] | null {
    if (this.below(3) === 0) return null;
    const more = this.many(3, () =>
      this.one([() => this.scalarField(), () => this.plainPath(), () => this.plainPath().split('.')])(),
    );
    return ['id', ...more];
  }

  scalarField(): string {
    return this.one([
      'id',
      'title',
      'note',
      'amount',
      'worth',
      'whole',
      'ratio',
      'is_open',
      'strict',
      'remark',
    ]);
  }

  /** Into a field whose inside only the records know. */
  openPath(): string {
    const field = this.one(['kind', 'tags', 'body', 'props', 'whatever', 'loose', 'either']);
    return [field, ...this.many(2, () => this.one(names))].join('.');
  }

  /** Without names that hold dots, which results show where they were found. */
  plainPath(): string {
    const plain = ['b', '__proto__', 'constructor', 'name', 'x y'];
    return [this.one(['body', 'whatever', 'either']), ...this.many(2, () => this.one(plain))].join('.');
  }

  /** A condition on elements of an array. */
  inner(depth: number): JsonObject {
    if (depth > 0 && this.below(4) === 0) return { not: this.inner(depth - 1) };
    if (depth > 0 && this.below(6) === 0) return { any: { [this.one(names)]: this.inner(depth - 1) } };
    return this.openLeaf(this.one(names));
  }

  leaf(): JsonObject {
    if (this.below(2) === 0) return this.openLeaf(this.openPath());
    const field = this.scalarField();
    const value = (): JsonValue => this.valueFor(field);
    const any = (): JsonValue => (this.below(6) === 0 ? null : value());
    const isText = typeof value() === 'string';
    const operator = this.one(isText ? [...comparing, ...ofTexts] : comparing);
    if (operator === 'eq' || operator === 'neq') return { [operator]: { [field]: any() } };
    if (operator === 'in') return { in: { [field]: this.many(4, any) } };
    if (operator === 'like') return { like: { [field]: this.pattern() } };
    if (operator === 'keyword' || operator === 'fuzzy') return { [operator]: { [field]: this.sentence() } };
    return { [operator]: { [field]: value() } };
  }

  openLeaf(path: string): JsonObject {
    const operator = this.one([...comparing, ...ofTexts]);
    if (operator === 'in') return { in: { [path]: this.many(4, () => this.scalar()) } };
    if (operator === 'like') return { like: { [path]: this.pattern() } };
    if (operator === 'keyword' || operator === 'fuzzy') return { [operator]: { [path]: this.sentence() } };
    const needsValue = operator.startsWith('g') || operator.startsWith('l');
    return { [operator]: { [path]: needsValue ? (this.scalar() ?? 1) : this.scalar() } };
  }

  pattern(): string {
    const parts = ['%', '_', '\\%', '\\', 'a', 'b', 'q', 'R', '*', '[', '😀', '\0', ...texts, ...words];
    return this.many(4, () => this.one(parts)).join('');
  }

  valueFor(field: string): JsonValue {
    switch (field) {
      case 'amount':
      case 'worth':
      case 'whole':
      case 'ratio':
        return this.number();
      case 'is_open':
        return this.below(2) === 0;
      case 'id':
        return `t${this.below(60)}`;
      default:
        return this.below(12) === 0 ? '\ud800' : this.text();
    }
  }
}
