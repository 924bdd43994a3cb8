import { SyncError } from '../../core/errors.ts';
import type { Position } from '../partition.ts';
import { writeJson } from './json-text.ts';

const maxPositionBytes = 64 * 1024;

/** Throws `SyncError` INTERNAL for a position that is too long to be written with every page. */
export function positionText(position: Position): string {
  const text = writeJson(position);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxPositionBytes) {
    throw new SyncError(
      `A position may take ${maxPositionBytes} bytes, but a "${position.kind}" one takes ${bytes}. Shorten what it keeps.`,
      { code: 'INTERNAL', recovery: 'stop', context: { bytes } },
    );
  }
  return text;
}
