import { noCounts } from '../core/records.ts';
import type { EntityReport } from '../sinks/run-report.ts';

/** The report of an entity of which nothing has been read, nor is missing. */
export const nothingDone: Omit<EntityReport, 'entity' | 'isWhole'> = {
  counts: noCounts,
  pages: 0,
  proofs: { single: 0, seam: 0, token: 0, keyset: 0 },
  setAside: 0,
  unordered: 0,
  extraFields: 0,
  depthLimited: 0,
  foreign: 0,
  incremental: 0,
  deleted: 0,
  withheld: 0,
  pending: 0,
  withdrawn: 0,
  withheldBecause: null,
  withholding: null,
};
