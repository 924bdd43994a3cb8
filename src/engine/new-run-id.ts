import { randomBytes } from 'node:crypto';
import { instant } from '../core/clock.ts';
import type { RunId } from '../core/names.ts';

/** Sorts by time, reads as a time, cannot collide: `20260131T235959123Z-9f86d081`. */
export function newRunId(nowMs: number): RunId {
  const time = instant(nowMs).replaceAll(/[-:.]/g, '');
  return `${time}-${randomBytes(4).toString('hex')}` as RunId;
}
