import { createHash } from 'node:crypto';
import type { ConnectorName } from '../core/names.ts';

/** The part of [0, jitterMs) by which this connector starts after its due time: always the same for the same name. */
export function jitterOffset(connector: ConnectorName, jitterMs: number): number {
  const share = createHash('sha256').update(connector).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * jitterMs);
}
