import type { PreparedRecord } from '../../core/records.ts';

/** A row's slot has 12 bytes of `PreparedRecord.raw`, then 4 of the hashes that the row had then. Empty: zeros. */
const slotBytes = 16;
const rawBytes = 12;
const rowsPerBlock = 128;
export const blockBytes = rowsPerBlock * slotBytes;

export type OfBytes = Pick<PreparedRecord, 'raw' | 'hash' | 'volatileHash'>;

export function chunkOf(row: number): number {
  return Math.floor(row / rowsPerBlock);
}

/** Where the row's slot begins in its block. */
export function slotOf(row: number): number {
  return (row % rowsPerBlock) * slotBytes;
}

/** 32 bits of both hashes: another content and other volatile fields differ from the remembered ones. */
export function tagOf({ hash, volatileHash }: Omit<OfBytes, 'raw'>): number {
  const [content, volatile] = [hash, volatileHash ?? '0'].map((one) => Number.parseInt(one.slice(0, 8), 16));
  return ((content ?? 0) ^ (volatile ?? 0)) >>> 0;
}

export function tagAt(hashes: Buffer, slot: number): number {
  return hashes.readUInt32BE(slot + rawBytes);
}

export function holds(hashes: Buffer, slot: number, record: OfBytes): boolean {
  return (
    record.raw !== undefined &&
    tagAt(hashes, slot) === tagOf(record) &&
    hashes.toString('latin1', slot, slot + rawBytes) === record.raw.slice(0, rawBytes)
  );
}

const emptySlot = Buffer.alloc(slotBytes);

/** False where the slot had these bytes. */
export function writeSlot(hashes: Buffer, slot: number, record: OfBytes): boolean {
  if (record.raw === undefined) {
    if (hashes.compare(emptySlot, 0, slotBytes, slot, slot + slotBytes) === 0) return false;
    emptySlot.copy(hashes, slot);
    return true;
  }
  if (holds(hashes, slot, record)) return false;
  hashes.write(record.raw, slot, rawBytes, 'latin1');
  hashes.writeUInt32BE(tagOf(record), slot + rawBytes);
  return true;
}
