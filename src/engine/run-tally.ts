import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { addCounts, addsUp, noCounts, type PageCounts } from '../core/records.ts';
import type {
  CommittedPage,
  EarlierCounts,
  EntityReport,
  FailureReport,
  Partition,
  Proof,
  WalkFailure,
} from '../sinks/sink.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';

const reportedFailures = 100;
/** More than this share of an entity's records in quarantine fails the entity. */
const maxQuarantinedShare = 0.01;

type EntityTally = {
  -readonly [Part in Exclude<keyof EntityReport, 'entity' | 'isWhole'>]: EntityReport[Part];
};

/** What decides whether an entity was read whole, over the runs of a chain; what was set aside is tried again by each. */
type Wholeness = Pick<EntityTally, 'setAside' | 'depthLimited'> & Pick<PageCounts, 'fetched' | 'quarantined'>;

/** The run's own account, kept beside the ledger's: the two must agree, or the run fails. */
export interface RunTally {
  pageCommitted(partition: Partition, page: PreparedPage, fetched: number, committed: CommittedPage): void;
  sealed(partition: Partition, proof: Proof): void;
  setAside(partition: Partition, failure: WalkFailure): void;
  /** Throws `SyncError` ACCOUNTING when records are missing from the account. */
  check(): void;
  /** In the order given; `isWhole` as far as the entity itself goes, whatever leads to it. */
  entities(): readonly EntityReport[];
  failures(): { readonly reported: readonly FailureReport[]; readonly omitted: number };
  /** True when something that should have been read was not. */
  isDegraded(): boolean;
  /** True when not one walk ended well and at least one did not. */
  nothingRead(): boolean;
}

/** `earlier`: what was left out before, in the same chain of runs, is left out still. */
export function runTally(order: readonly EntityName[], earlier: readonly EarlierCounts[] = []): RunTally {
  const tallies = new Map<EntityName, EntityTally>(order.map((entity) => [entity, emptyTally()]));
  /** Counted from the responses, to be compared with what the sink says it did. */
  const received = new Map<EntityName, number>();
  const earlierByEntity = new Map(earlier.map((counts) => [counts.entity, counts]));
  const failures: FailureReport[] = [];
  let omitted = 0;

  function of(entity: EntityName): EntityTally {
    const tally = tallies.get(entity) ?? emptyTally();
    tallies.set(entity, tally);
    return tally;
  }

  function inChain(entity: EntityName): Wholeness {
    const { setAside, depthLimited, counts } = of(entity);
    const before = earlierByEntity.get(entity);
    return {
      setAside,
      depthLimited: depthLimited + (before?.depthLimited ?? 0),
      fetched: counts.fetched + (before?.fetched ?? 0),
      quarantined: counts.quarantined + (before?.quarantined ?? 0),
    };
  }

  function receive(entity: EntityName, records: number): void {
    received.set(entity, (received.get(entity) ?? 0) + records);
  }

  function addFailure(failure: FailureReport): void {
    if (failures.length < reportedFailures) failures.push(failure);
    else omitted += 1;
  }

  return {
    pageCommitted: (partition, page, fetched, committed) => {
      const own = of(partition.entity);
      receive(partition.entity, fetched);
      own.pages += 1;
      own.depthLimited += page.depthLimited;
      own.foreign += page.foreign;
      for (const [entity, fields] of page.extraFields) of(entity).extraFields += fields;
      for (const { entity } of page.rows.slice(1)) receive(entity, page.explodedFetched);
      for (const { entity, counts } of committed.counts)
        of(entity).counts = addCounts(of(entity).counts, counts);
    },
    sealed: (partition, proof) => {
      const tally = of(partition.entity);
      tally.proofs = { ...tally.proofs, [proof.kind]: tally.proofs[proof.kind] + 1 };
      if (!proof.isOrdered) tally.unordered += 1;
    },
    setAside: (partition, failure) => {
      of(partition.entity).setAside += 1;
      const { code, recovery, message } = failure;
      addFailure({ entity: partition.entity, params: partition.params, code, recovery, message });
    },
    check: () => {
      for (const [entity, { counts }] of tallies) {
        const fetched = received.get(entity) ?? 0;
        if (fetched === counts.fetched && addsUp(counts)) continue;
        throw new SyncError(
          `the numbers of ${entity} do not add up: ${fetched} records were received, the sink accounts for ${JSON.stringify(counts)}`,
          { code: 'ACCOUNTING', recovery: 'stop', context: { entity, fetched } },
        );
      }
    },
    entities: () =>
      [...tallies].map(([entity, tally]) => ({ entity, ...tally, isWhole: isWhole(inChain(entity)) })),
    failures: () => {
      const overQuarantined = [...tallies.keys()]
        .map((entity) => [entity, inChain(entity)] as const)
        .filter(([, sums]) => isOverQuarantined(sums))
        .map(([entity, sums]) => quarantineFailure(entity, sums));
      return { reported: [...overQuarantined, ...failures], omitted };
    },
    isDegraded: () => ![...tallies.keys()].every((entity) => isWhole(inChain(entity))),
    nothingRead: () =>
      [...tallies.values()].every(({ proofs }) => proofs.single + proofs.seam + proofs.token === 0) &&
      [...tallies.values()].some(({ setAside }) => setAside > 0),
  };
}

function emptyTally(): EntityTally {
  return {
    counts: noCounts,
    pages: 0,
    proofs: { single: 0, seam: 0, token: 0 },
    setAside: 0,
    unordered: 0,
    extraFields: 0,
    depthLimited: 0,
    foreign: 0,
  };
}

function isWhole(sums: Wholeness): boolean {
  return sums.setAside === 0 && sums.depthLimited === 0 && !isOverQuarantined(sums);
}

function isOverQuarantined({ fetched, quarantined }: Pick<Wholeness, 'fetched' | 'quarantined'>): boolean {
  return quarantined > fetched * maxQuarantinedShare;
}

function quarantineFailure(
  entity: EntityName,
  counts: Pick<Wholeness, 'fetched' | 'quarantined'>,
): FailureReport {
  return {
    entity,
    params: {},
    code: 'QUARANTINE_LIMIT',
    recovery: 'skip-entity',
    message: `${counts.quarantined} of ${counts.fetched} records could not be stored and are in quarantine (at most ${maxQuarantinedShare * 100} % is accepted)`,
  };
}
