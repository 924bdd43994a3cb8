import type { JsonValue } from '../core/json.ts';
import { writeJson } from '../sinks/ledger/json-text.ts';
import { comparable } from './instants.ts';

/** Of a text, and of objects and arrays as JSON text, so many bytes decide; equal ones are in the order of their rows. */
const maxBytes = 512;

/**
 * Bytes that sort as values of any type do: booleans, numbers, texts by code point (times as instants), then objects and arrays by their JSON
 * text. Null, which is before all of them, stays null.
 */
export function sortKey(value: JsonValue): Buffer | null {
  if (value === null) return null;
  if (typeof value === 'boolean') return Buffer.from([1, Number(value)]);
  if (typeof value === 'number') {
    return Buffer.concat([Buffer.from([2]), doubleBytes(value), Buffer.from([0x80])]);
  }
  if (typeof value === 'bigint') {
    return Buffer.concat([Buffer.from([2]), integerBytes(value)]).subarray(0, maxBytes);
  }
  return typeof value === 'string' ? textKey(3, comparable(value)) : textKey(4, writeJson(value));
}

function textKey(rank: number, text: string): Buffer {
  // A character takes a byte at least, so nothing further can count.
  return Buffer.from(String.fromCharCode(rank) + text.slice(0, maxBytes)).subarray(0, maxBytes);
}

/** IEEE 754 as bytes that sort: the sign turned, and of negative numbers everything. */
function doubleBytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value === 0 ? 0 : value);
  const isNegative = value < 0;
  if (isNegative) return Buffer.from(bytes.map((byte) => byte ^ 0xff));
  bytes.writeUInt8(bytes.readUInt8() ^ 0x80);
  return bytes;
}

/** The nearest double, then by how much the integer is above or below it: as many digits as that has, and the digits. */
function integerBytes(value: bigint): Buffer {
  const nearest = Number(value);
  const distance = Number.isFinite(nearest) ? value - BigInt(nearest) : value;
  const digits = (distance < 0n ? -distance : distance).toString(16);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(digits.length);
  const size = Buffer.concat([length, Buffer.from(digits)]);
  if (distance === 0n) return Buffer.concat([doubleBytes(nearest), Buffer.from([0x80])]);
  return distance > 0n
    ? Buffer.concat([doubleBytes(nearest), Buffer.from([0x81]), size])
    : Buffer.concat([doubleBytes(nearest), Buffer.from([0x7f]), size.map((byte) => byte ^ 0xff)]);
}
