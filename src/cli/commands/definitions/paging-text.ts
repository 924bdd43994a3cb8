import type { Entity } from '../../../definitions/definition.ts';
import type { TriedCall, TriedStep } from '../../../engine/try-listing.ts';
import { count, printableWithin } from '../../../telemetry/format.ts';
import { doubtText } from '../../../wording/completeness-text.ts';

/** What was decided about the next page, and what the answer has about it. */
export function pagingText(entity: Entity, { page, commit, next }: TriedCall): string {
  if (commit === null && next.kind === 'call') return 'the call failed, and is made again for fewer records';
  const facts = page === null || commit === null ? [] : factsOf(entity, page, commit.fetched);
  const { kind } = entity.pagination;
  const isSaid = page?.next?.hasMore === true;
  const isCut = page?.isCut === true && !isSaid;
  const why =
    next.kind === 'call' && next.restartedBecause === null
      ? continuing[isCut ? 'cut' : isSaid ? 'pageToken' : kind]
      : stepText(next);
  return [why, ...facts].join('; ');
}

/** Why another call follows an answer. */
const unsaid = 'the answer does not say whether it is the last page, so another call follows';
const continuing = {
  pageToken: 'more follows: the answer says so',
  offset: unsaid,
  page: unsaid,
  lastRecord: unsaid,
  cut: 'the answer says that the service ended the listing early: it is read on from its other end',
  single: 'the answer counts more records than it has, so it is asked for once more',
} as const;

/** What comes after a call, as the sync's own code decided. */
export function stepText(next: TriedStep): string {
  switch (next.kind) {
    case 'call':
      return next.restartedBecause === null
        ? 'the listing continues'
        : `the listing begins again: ${next.restartedBecause}`;
    case 'end':
      return endText(next.seal);
    case 'set-aside':
      return `a sync would leave this listing and read the others: ${next.failure.message}`;
    case 'stop':
      return `a sync would stop: ${next.error.message}`;
  }
}

type Seal = Extract<TriedStep, { kind: 'end' }>['seal'];

function endText({ proof, lastPage, doubt }: Seal): string {
  if (doubt !== undefined) return `the end, part missing: ${doubtText(doubt)}`;
  const short =
    lastPage === undefined ? '' : `, because ${count(lastPage.records)} of ${count(lastPage.size)} came`;
  const order =
    proof.isOrdered || proof.isCounted === true ? '' : ', unconfirmed: in an order that is not known';
  switch (proof.kind) {
    case 'single':
      return `the end: the first page has everything${short}`;
    case 'token':
      return `the end: the answer says so${short}${order}`;
    case 'seam':
    case 'keyset':
      return `the end: nothing follows${short}${order}`;
  }
}

/** What the page itself says. */
function factsOf(
  { pagination }: Entity,
  { next, total }: NonNullable<TriedCall['page']>,
  records: number,
): readonly string[] {
  const came =
    pagination.kind === 'single' || pagination.maxSize === null
      ? []
      : [`${count(records)} of up to ${count(pagination.maxSize)} records came`];
  const named = total === undefined ? [] : [`the total is ${count(total)}`];
  if (next === null) return [...came, ...named];
  const flag = next.hasMore === null ? [] : [`the flag for more is ${next.hasMore}`];
  const token = next.token === null ? 'no token' : `the token is ${printableWithin(next.token, 40)}`;
  return [...flag, token, ...named];
}
