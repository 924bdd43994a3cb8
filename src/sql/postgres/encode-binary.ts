export type BinaryType =
  | 'text'
  | 'json'
  | 'jsonb'
  | 'integer'
  | 'bigint'
  | 'double precision'
  | 'boolean'
  | 'bytea'
  | 'timestamptz'
  | 'date'
  | 'numeric';
/**
 * Booleans are 0 and 1, instants their texts or microseconds since 1970, dates days since then, and a `numeric` is a
 * whole number of billionths.
 */
export type BinaryValue = string | number | bigint | Buffer | null;

/** The server's numbers of these types. */
const oids: Readonly<Record<BinaryType, number>> = {
  text: 25,
  json: 114,
  jsonb: 3802,
  integer: 23,
  bigint: 20,
  'double precision': 701,
  boolean: 16,
  bytea: 17,
  timestamptz: 1184,
  date: 1082,
  numeric: 1700,
};

const chunkBytes = 64 * 1024;
const signature = Buffer.concat([Buffer.from('PGCOPY\n\xFF\r\n\0', 'latin1'), Buffer.alloc(8)]);

/**
 * Rows for `COPY ... FROM STDIN (FORMAT binary)`, each with a value for every type: some 3 microseconds of this process
 * for a row of 30 columns, where texts would take 6 and arrays of parameters 14. In chunks, so that a large page is not
 * held twice.
 */
export function* encodeRows(types: readonly BinaryType[], rows: Iterable<readonly BinaryValue[]>) {
  const bytes = new Bytes(2 * chunkBytes);
  bytes.raw(signature);
  for (const row of rows) {
    bytes.int16(types.length);
    types.forEach((type, index) => bytes.field(type, row[index] ?? null));
    if (bytes.length >= chunkBytes) yield bytes.take();
  }
  bytes.int16(-1);
  yield bytes.take();
}

/** A parameter `type[]`. It holds texts of JSON as they are, which an array of strings would have escaped. */
export function encodeArray(type: BinaryType, values: readonly BinaryValue[]): Buffer {
  const bytes = new Bytes(1_024);
  for (const header of [1, values.includes(null) ? 1 : 0, oids[type], values.length, 1]) bytes.int32(header);
  for (const value of values) bytes.field(type, value);
  return bytes.take();
}

/** Milliseconds of 2000-01-01, from which the server counts. */
const epochMs = Date.UTC(2000, 0, 1);
const high = 2 ** 32;
const jsonbVersion = Buffer.from([1]);
/** The sign of a `numeric`. */
const negative = 0x4000;

class Bytes {
  #buffer = Buffer.alloc(0);
  readonly #least: number;
  length = 0;

  /** `least`: the buffer's size to begin with. */
  constructor(least: number) {
    this.#least = least;
  }

  /** Returns the bytes written since the last call. */
  take(): Buffer {
    const taken = this.#buffer.subarray(0, this.length);
    this.#buffer = Buffer.alloc(0);
    this.length = 0;
    return taken;
  }

  raw(bytes: Buffer): void {
    this.#makeRoom(bytes.length);
    this.length += bytes.copy(this.#buffer, this.length);
  }

  int16(value: number): void {
    this.#makeRoom(2);
    this.length = this.#buffer.writeInt16BE(value, this.length);
  }

  int32(value: number): void {
    this.#makeRoom(4);
    this.length = this.#buffer.writeInt32BE(value, this.length);
  }

  /** Writes a value after its length; null has the length -1. */
  field(type: BinaryType, value: BinaryValue): void {
    if (value === null) {
      this.int32(-1);
    } else if (type === 'text' || type === 'json') {
      this.#text(type === 'text' ? writeText(String(value)) : String(value));
    } else if (type === 'bytea') {
      if (!Buffer.isBuffer(value)) throw new TypeError('A column of bytes holds bytes');
      this.int32(value.length);
      this.raw(value);
    } else if (type === 'boolean') {
      this.int32(1);
      this.#makeRoom(1);
      this.length = this.#buffer.writeInt8(Number(value) === 0 ? 0 : 1, this.length);
    } else if (type === 'jsonb') {
      this.int32(1 + Buffer.byteLength(String(value)));
      this.raw(jsonbVersion);
      this.raw(Buffer.from(String(value)));
    } else if (type === 'integer' || type === 'date') {
      this.int32(4);
      this.int32(type === 'date' ? Number(value) - epochMs / 86_400_000 : Number(value));
    } else if (type === 'numeric') {
      this.#numeric(BigInt(String(value)));
    } else if (type === 'double precision') {
      this.int32(8);
      this.#makeRoom(8);
      this.length = this.#buffer.writeDoubleBE(Number(value), this.length);
    } else {
      const integer =
        type !== 'timestamptz'
          ? value
          : typeof value === 'bigint'
            ? value - BigInt(epochMs) * 1_000n
            : (Date.parse(String(value)) - epochMs) * 1_000;
      this.#int64(typeof integer === 'bigint' ? integer : Number(integer));
    }
  }

  /** Groups of four decimal digits, three of them after the point. */
  #numeric(billionths: bigint): void {
    const all = String(billionths).replace('-', '').padStart(13, '0');
    const digits = `${all}000`.padStart(4 * Math.ceil((all.length + 3) / 4), '0');
    const groups = (digits.match(/\d{4}/g) ?? []).map(Number);
    const first = groups.findIndex((group) => group !== 0);
    const used = first === -1 ? [] : groups.slice(first, groups.findLastIndex((group) => group !== 0) + 1);
    const shown = 9 - (/0{0,9}$/.exec(all)?.[0].length ?? 0);
    this.int32(8 + 2 * used.length);
    this.int16(used.length);
    this.int16(first === -1 ? 0 : groups.length - 4 - first);
    this.int16(billionths < 0n ? negative : 0);
    this.int16(shown);
    for (const group of used) this.int16(group);
  }

  /** Lone surrogates, which UTF-8 has no bytes for, become U+FFFD. */
  #text(text: string): void {
    this.#makeRoom(4 + 3 * text.length);
    const size = this.#buffer.write(text, this.length + 4, 'utf8');
    this.#buffer.writeInt32BE(size, this.length);
    this.length += 4 + size;
  }

  /** Throws `RangeError` beyond 64 bits and for fractions. */
  #int64(value: number | bigint): void {
    this.int32(8);
    this.#makeRoom(8);
    if (typeof value === 'bigint') {
      this.length = this.#buffer.writeBigInt64BE(value, this.length);
      return;
    }
    if (!Number.isInteger(value)) throw new RangeError('A column of integers holds integers');
    const upper = Math.floor(value / high);
    this.#buffer.writeInt32BE(upper, this.length);
    this.length = this.#buffer.writeUInt32BE(value - upper * high, this.length + 4);
  }

  #makeRoom(size: number): void {
    if (this.length + size <= this.#buffer.length) return;
    const wider = Buffer.allocUnsafe(Math.max(this.#least, 2 * this.#buffer.length, this.length + size));
    this.#buffer.copy(wider, 0, 0, this.length);
    this.#buffer = wider;
  }
}

const escape = '\uE000';

/**
 * PostgreSQL refuses U+0000 in a text. It is stored as U+E000 `0`, and U+E000 itself as U+E000 `1`; nothing else
 * changes, and equal texts stay equal. `json` columns hold the input unchanged: there, U+0000 is written as six
 * characters.
 */
export function writeText(text: string): string {
  if (!text.includes('\0') && !text.includes(escape)) return text;
  return text.replaceAll(escape, `${escape}1`).replaceAll('\0', `${escape}0`);
}

export function readText(text: string): string {
  if (!text.includes(escape)) return text;
  return text.replace(/\uE000([01])/g, (_, mark: string) => (mark === '0' ? '\0' : escape));
}

/** SQL: the stored text has an escape. */
export function hasEscape(sql: string): string {
  return `strpos(${sql}, chr(${escape.codePointAt(0)})) > 0`;
}
