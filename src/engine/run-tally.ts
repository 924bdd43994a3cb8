import { SyncError, type Failure } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { addCounts, addsUp, noCounts, type PageCounts, type Params } from '../core/records.ts';
import type { EndedPartition } from '../sinks/deletes.ts';
import type { Partition, Proof, Seal, WalkFailure } from '../sinks/partition.ts';
import type { EntityReport, FailureReport, FileReport, RunReport } from '../sinks/run-report.ts';
import type { CommittedPage, EarlierCounts } from '../sinks/sink.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import { knownOrMade } from '../core/grouped.ts';
import type { FileFailure, FileFolder, LeftFiles } from '../sinks/files.ts';
import type { FileSource } from '../source/source.ts';

/** A report names no more. */
export const reportedFailures = 100;
/** Share of an entity's records in quarantine or received only in part, above which the entity fails. */
const maxUnstoredShare = 0.01;

const nothingMissing = { withheld: 0, pending: 0, toConfirm: 0, withheldBecause: null, withholding: null };

/** Report of an entity without any reads or missing rows. */
export const nothingDone: Omit<EntityReport, 'entity' | 'isWhole'> = {
  counts: noCounts,
  pages: 0,
  proofs: { single: 0, seam: 0, token: 0, keyset: 0 },
  setAside: 0,
  unordered: 0,
  extraFields: 0,
  undated: 0,
  depthLimited: 0,
  foreign: 0,
  partial: 0,
  incremental: 0,
  deleted: 0,
  ...nothingMissing,
  withdrawn: 0,
  isProven: false,
  completeness: 'not-yet',
};

/** The parts of a report that say nothing where nothing was read. */
export const nothingReported = {
  continues: null,
  entities: [],
  calls: 0,
  retries: 0,
  waitedMs: 0,
  bytes: 0,
  failures: [],
  failuresOmitted: 0,
  error: null,
  resumeAt: null,
  left: [],
  partMissing: [],
  unconfirmed: [],
  files: [],
} satisfies Partial<RunReport>;

type EntityTally = {
  -readonly [Part in Exclude<keyof EntityReport, 'entity' | 'isWhole'>]: EntityReport[Part];
};

/**
 * Counts that decide whether an entity was read whole, over the runs of a chain. Listings that were set aside are
 * retried by each run.
 */
type Wholeness = ReturnType<typeof wholeness>;

export type MissingTally = Pick<EntityReport, keyof typeof nothingMissing>;

/**
 * The run's own account beside the ledger's: the two must agree. `earlier`: the counts of the chain's earlier runs;
 * records that they left out are still left out.
 */
export function runTally(order: readonly EntityName[], earlier: readonly EarlierCounts[] = []) {
  const tallies = new Map<EntityName, EntityTally>(order.map((entity) => [entity, { ...nothingDone }]));
  /** Counts of the responses, to be compared with the sink's. */
  const received = new Map<EntityName, number>();
  const earlierByEntity = new Map(earlier.map((counts) => [counts.entity, counts]));
  const failures = openFailures();
  const refusals: FailureReport[] = [];

  const of = (entity: EntityName): EntityTally => knownOrMade(tallies, entity, () => ({ ...nothingDone }));
  const inChain = (entity: EntityName): Wholeness => wholeness(of(entity), earlierByEntity.get(entity));

  function receive(entity: EntityName, records: number): void {
    received.set(entity, (received.get(entity) ?? 0) + records);
  }

  return {
    pageCommitted(partition: Partition, page: PreparedPage, fetched: number, committed: CommittedPage): void {
      const own = of(partition.entity);
      receive(partition.entity, fetched);
      own.pages += 1;
      own.depthLimited += page.depthLimited;
      own.foreign += page.stored.foreign;
      own.undated += page.undated;
      own.partial += committed.partial ?? 0;
      for (const [entity, fields] of page.extraFields) of(entity).extraFields += fields;
      for (const { entity } of page.stored.rows.slice(1)) receive(entity, page.explodedFetched);
      for (const { entity, counts } of committed.counts) {
        of(entity).counts = addCounts(of(entity).counts, counts);
      }
      for (const { mode, proof } of committed.unsealed ?? []) {
        countSeal(own, mode, proof, proof.doubt !== undefined, -1);
      }
    },
    sealed: (partition: Partition, { proof, doubt }: Pick<Seal, 'proof' | 'doubt'>): void =>
      countSeal(of(partition.entity), partition.mode, proof, doubt !== undefined, 1),
    setAside: (partition: Partition, failure: WalkFailure): void => {
      of(partition.entity).setAside += 1;
      failures.add(partition.id, partition.entity, partition.params, failure);
    },
    /** The parents of these partitions have turned out to be deleted: that they were set aside is no loss. */
    endedBelow: (partitions: readonly EndedPartition[]): void => {
      for (const { id, entity } of partitions) {
        of(entity).setAside -= 1;
        failures.remove(id);
      }
    },
    /** Records that a `get` brought and the sink stored. */
    confirmed: (entity: EntityName, fetched: number, counts: PageCounts): void => {
      receive(entity, fetched);
      of(entity).counts = addCounts(of(entity).counts, counts);
    },
    deleted: (entity: EntityName, rows: number): void => void (of(entity).deleted += rows),
    /** A full walk missed a record that is there. */
    withdrawn: (entity: EntityName): void => void (of(entity).withdrawn += 1),
    /** Replaces the counts of all entities. */
    missing: (found: ReadonlyMap<EntityName, MissingTally>): void => {
      for (const tally of tallies.values()) Object.assign(tally, nothingMissing);
      for (const [entity, missing] of found) Object.assign(of(entity), missing);
    },
    /** Throws `SyncError` ACCOUNTING when records are missing from the account. */
    check: (): void => {
      for (const [entity, { counts }] of tallies) {
        const fetched = received.get(entity) ?? 0;
        if (fetched === counts.fetched && addsUp(counts)) continue;
        throw new SyncError(
          `the numbers of ${entity} do not add up: ${fetched} records were received, the sink accounts for ${JSON.stringify(counts)}`,
          { code: 'ACCOUNTING', recovery: 'stop', context: { entity, fetched } },
        );
      }
    },
    /** Reports in the order given; `isWhole` judges the entity itself, regardless of its parents. */
    entities: (): readonly EntityReport[] =>
      [...tallies].map(([entity, tally]) => {
        const isSkipped = refusals.some((one) => one.entity === entity && one.code === 'UNPROVEN');
        return { entity, ...tally, isWhole: !isSkipped && isWhole(inChain(entity)) };
      }),
    /** Failures for the run's report, which does not name all of them. */
    failures: () => {
      const unstored = [...tallies.keys()]
        .map((entity) => [entity, inChain(entity)] as const)
        .filter(([, sums]) => isTooMuchUnstored(sums))
        .map(([entity, sums]) => unstoredFailure(entity, sums));
      const { reported, omitted } = failures.found();
      return { reported: [...unstored, ...refusals, ...reported], omitted };
    },
    /**
     * The entity as a whole is refused: the sink has no columns for its new fields, while its records are all read, or
     * it must not be read (UNPROVEN).
     */
    refused: (entity: EntityName, { code, recovery, message }: SyncError): void => {
      of(entity);
      refusals.push({ entity, params: {}, code, recovery, message });
    },
    /** True when something that should have been read was not, or has no column. */
    isDegraded: (): boolean =>
      refusals.length > 0 || ![...tallies.keys()].every((entity) => isWhole(inChain(entity))),
    /** True when not one walk ended well and at least one did not. */
    nothingRead: (): boolean =>
      [...tallies.values()].every(({ proofs }) => Object.values(proofs).every((walks) => walks === 0)) &&
      [...tallies.values()].some(({ setAside }) => setAside > 0),
  };
}

/** Collects failures by number, as many as a report names: there may be as many as files. */
function openFailures() {
  const reported = new Map<number, FailureReport>();
  let count = 0;
  return {
    add: (id: number, entity: EntityName, params: Params, { code, recovery, message }: Failure): void => {
      count += 1;
      if (reported.size < reportedFailures) reported.set(id, { entity, params, code, recovery, message });
    },
    remove: (id: number): void => {
      count -= 1;
      reported.delete(id);
    },
    count: () => count,
    /** Failures, at most `limit` of them. */
    found: (limit = reportedFailures) => {
      const shown = [...reported.values()].slice(0, Math.max(0, limit));
      return { reported: shown, omitted: count - shown.length };
    },
  };
}

/** Counts a listing that was sealed, or with -1 one that no longer is. */
function countSeal(
  tally: EntityTally,
  mode: Partition['mode'],
  proof: Proof,
  isDoubted: boolean,
  by: 1 | -1,
): void {
  tally.proofs = { ...tally.proofs, [proof.kind]: tally.proofs[proof.kind] + by };
  if (!proof.isOrdered && proof.isCounted !== true && !isDoubted) tally.unordered += by;
  if (mode === 'incremental') tally.incremental += by;
}

/** Adds up the counts of an entity over the chain; `before`: the counts of its earlier runs. */
function wholeness(tally: EntityTally, before: EarlierCounts | undefined) {
  const { setAside, depthLimited, withdrawn, partial, counts } = tally;
  return {
    setAside,
    withdrawn,
    partial,
    depthLimited: depthLimited + (before?.depthLimited ?? 0),
    fetched: counts.fetched + (before?.fetched ?? 0),
    quarantined: counts.quarantined + (before?.quarantined ?? 0),
  };
}

function isWhole(sums: Wholeness): boolean {
  return sums.setAside === 0 && sums.depthLimited === 0 && sums.withdrawn === 0 && !isTooMuchUnstored(sums);
}

function isTooMuchUnstored({ fetched, quarantined, partial }: Wholeness): boolean {
  return quarantined + partial > fetched * maxUnstoredShare;
}

function unstoredFailure(entity: EntityName, { fetched, quarantined, partial }: Wholeness): FailureReport {
  const whatCame = [
    ...(quarantined > 0
      ? [`${quarantined} of ${fetched} records could not be stored and are in quarantine`]
      : []),
    ...(partial > 0
      ? [`${partial} of ${fetched} records came in part, and their rows stay as they were stored`]
      : []),
  ].join('; ');
  return {
    entity,
    params: {},
    code: 'QUARANTINE_LIMIT',
    recovery: 'skip-entity',
    message: `${whatCame} (at most ${maxUnstoredShare * 100} % is accepted)`,
  };
}

export interface FileOptions {
  readonly source: FileSource;
  readonly folder: FileFolder;
  readonly entities: ReadonlySet<EntityName>;
  readonly maxBytes: number;
}

type Sums = { -readonly [Part in 'stored' | 'bytes' | 'failed']: FileReport[Part] };

export function fileTally() {
  const sums = new Map<EntityName, Sums>();
  const failures = openFailures();

  const of = (entity: EntityName): Sums =>
    knownOrMade(sums, entity, () => ({ stored: 0, bytes: 0, failed: 0 }));

  return {
    stored: (entity: EntityName, bytes: number): void => {
      const sum = of(entity);
      sum.stored += 1;
      sum.bytes += bytes;
    },
    setAside: (entity: EntityName, params: Params, failure: FileFailure): void => {
      of(entity).failed += 1;
      failures.add(failures.count(), entity, params, failure);
    },
    /** Reports by entity, in the order in which they were met; `left`: files that are still wanted at the end. */
    entities: (left: readonly LeftFiles[]): readonly FileReport[] => {
      for (const { entity } of left) of(entity);
      const leftOf = new Map(left.map(({ entity, files }) => [entity, files]));
      return Array.from(sums, ([entity, sum]) => ({ entity, ...sum, left: leftOf.get(entity) ?? 0 }));
    },
    failures: failures.found,
    /** True when a file that was asked for did not come. */
    isDegraded: (): boolean => failures.count() > 0,
  };
}
