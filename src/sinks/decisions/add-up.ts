import type { EntityName, RunId } from '../../core/names.ts';
import { SyncError } from '../../core/errors.ts';
import {
  addsUp,
  countNames,
  noCounts,
  sumsByEntity,
  type EntityCounts,
  type PageCounts,
} from '../../core/records.ts';
import type { EntityMissing } from '../deletes.ts';
import type { EntityReport, RowsOf, RunReport } from '../run-report.ts';
import type { CommittedPage, PageCommit } from '../sink.ts';

export type CountsOfEntity = PageCounts & { readonly entity: EntityName };

/** `quarantined`: of which only a part came, and nothing is stored. */
export type StoredCounts = Pick<
  PageCounts,
  'quarantined' | 'inserted' | 'updated' | 'duplicate' | 'unchanged'
>;

/**
 * What became of a page's records, the walk's own entity first. `stored`: of each of `page.rows`. Throws `SyncError`
 * ACCOUNTING unless all are accounted for.
 */
export function countPage(
  page: Pick<PageCommit, 'fetched' | 'filtered' | 'foreign' | 'refused' | 'rows'> & {
    /** Purged records that it would have stored again. */
    readonly withheld?: readonly RowsOf[];
  },
  walked: EntityName,
  stored: readonly StoredCounts[],
): CommittedPage['counts'] {
  const parts: EntityCounts[] = [];
  const add = (entity: EntityName, counts: Partial<PageCounts>): void =>
    void parts.push({ entity, counts: { ...noCounts, ...counts } });
  add(walked, { fetched: page.fetched, filtered: page.filtered, duplicate: page.foreign });
  for (const { entity, rows } of page.withheld ?? []) {
    add(entity, { fetched: entity === walked ? 0 : rows, filtered: rows });
  }
  for (const { entity } of page.refused) add(entity, { fetched: entity === walked ? 0 : 1, quarantined: 1 });
  for (const [index, { entity, records }] of page.rows.entries()) {
    add(entity, { fetched: entity === walked ? 0 : records.length, ...stored[index] });
  }
  const sums = sumsByEntity(parts);
  for (const { entity, counts } of sums) checkCounts(entity, counts);
  return sums;
}

/** The page's records that came in part and whose rows stay as they are; nothing where there are none. */
export function countPartial(
  { rows }: Pick<PageCommit, 'rows'>,
  stored: readonly StoredCounts[],
): Pick<CommittedPage, 'partial'> {
  const came = rows.flatMap(({ records }) => records).filter((record) => record.partial !== undefined).length;
  const partial = stored.reduce((left, { quarantined }) => left - quarantined, came);
  return partial === 0 ? {} : { partial };
}

/** Throws `SyncError` ACCOUNTING unless every fetched record is accounted for. */
export function checkCounts(entity: EntityName, counts: PageCounts): void {
  if (addsUp(counts)) return;
  throw new SyncError(
    `A page of "${entity}" does not add up: ${names} is ${numbersOf(counts).join('/')}. Nothing of it was stored. ` +
      "This is a defect: report it with the run's log.",
    { code: 'ACCOUNTING', recovery: 'stop', context: { entity, ...counts } },
  );
}

/** The error of a run whose report does not agree with what was stored; null where it does. */
export function accountingError(
  run: RunId,
  stored: readonly CountsOfEntity[],
  reported: readonly Pick<EntityReport, 'entity' | 'counts'>[],
): NonNullable<RunReport['error']> | null {
  const report = new Map(sumsByEntity(reported).map(({ entity, counts }) => [entity, counts]));
  const ledger = new Map<EntityName, PageCounts>(stored.map((counts) => [counts.entity, counts]));
  const differences = [...new Set([...ledger.keys(), ...report.keys()])].flatMap((entity) => {
    const left = numbersOf(ledger.get(entity) ?? noCounts).join('/');
    const right = numbersOf(report.get(entity) ?? noCounts).join('/');
    return left === right ? [] : [`${entity}: the ledger has ${left}, the report ${right}`];
  });
  if (differences.length === 0) return null;
  const message =
    `The report of run ${run} does not agree with what was stored (${names}): ${differences.join('; ')}. ` +
    "This is a defect: report it with the run's log.";
  return { code: 'ACCOUNTING', recovery: 'stop', message };
}

const names = countNames.join('/');

function numbersOf(counts: PageCounts): number[] {
  return countNames.map((name) => counts[name]);
}

/** What an entity's table has, and what of it belongs to deletes that were judged before. */
interface RowAccount {
  /** Rows without a tombstone. */
  readonly stored: number;
  /** Of them: below records that are deleted. */
  readonly judged: number;
  readonly addedInDay: number;
  readonly deletedInDay: number;
}

/** Live rows now, and 24 hours ago: what a guard's share is a share of. */
export function weighRows({
  stored,
  judged,
  addedInDay,
  deletedInDay,
}: RowAccount): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay'> {
  const live = stored - judged;
  return { live, dayAgo: Math.max(0, live - addedInDay + deletedInDay), deletedInDay };
}
