import type { Repair } from '../../repair.ts';
import { adopt } from '../lease/acquire.ts';
import type { Leases } from '../lease/leases.ts';
import type { Ledger } from '../ledger.ts';
import type { InLease } from '../transact.ts';
import { reset } from './reset.ts';
import { storeOne, tombstoneOne, undelete } from './rows.ts';

/** `Repair` of a sink in PostgreSQL. */
export function postgresRepair(ledger: Ledger, leases: Leases, inLease: InLease): Repair {
  return {
    reset: (connector, what) => reset(ledger, leases, connector, what),
    adopt: (identity, now) => adopt(ledger, leases, identity, now),
    canUndelete: true,
    undelete: (lease, run, of, limit) => inLease(lease, run, (commit) => undelete(commit, of, limit)),
    storeRecord: (lease, run, entity, record) =>
      inLease(lease, run, (commit) => storeOne(commit, entity, record)),
    tombstoneRecord: (lease, run, entity, keyText) =>
      inLease(lease, run, (commit) => tombstoneOne(commit, entity, keyText)),
  };
}
