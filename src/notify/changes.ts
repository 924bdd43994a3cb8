import type { Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { NoticeKind } from '../settings/settings.ts';
import type { Condition, NoticeChanges } from '../sinks/notices.ts';
import { detailOf, isOfRuns, type FoundCondition } from './conditions.ts';

/** A change of state that people are notified of. */
export interface Change {
  readonly kind: NoticeKind;
  readonly connector: ConnectorName | null;
  readonly since: Instant;
  /** What has come up; of `recovered` what is over. */
  readonly items: readonly ChangedItem[];
  readonly needsPerson: boolean;
}

export interface ChangedItem {
  readonly kind: NoticeKind;
  /** An entity, a field, a target; '' for all of the connector. */
  readonly subject: string;
  readonly since: Instant;
  /** A sentence. */
  readonly text: string;
}

/** Kinds whose end is good news. An undeclared field is news once. */
const ending = [
  'failed',
  'incomplete',
  'withheld-deletes',
  'withheld-retention',
  'late',
  'purge-unfinished',
  'publication-failed',
  'config-refused',
] as const;
const telling = [...ending, 'schema-change'] as const;

/**
 * What has changed between the stored conditions of one connector (or those of none) and the ones that hold now. A run
 * that fails again in another way is no change.
 */
export function changesOf(
  found: readonly FoundCondition[],
  before: readonly Condition[],
): Omit<NoticeChanges, 'messages'> & { readonly changes: readonly Change[] } {
  const keyOf = ({ kind, subject }: Pick<Condition, 'kind' | 'subject'>): string =>
    JSON.stringify([kind, subject]);
  const known = new Map(before.map((one) => [keyOf(one), one]));
  const now = new Set(found.map(keyOf));
  const isFirst = !before.some(({ kind }) => kind === 'watched');
  const had = (kind: string): boolean => before.some((one) => one.kind === kind);
  const has = (kind: string): boolean => found.some((one) => one.kind === kind);
  const appeared = telling.flatMap((kind) => {
    const isNews = !(isOfRuns(kind) && had(kind)) && !(kind === 'schema-change' && isFirst);
    const items = found.filter((one) => one.kind === kind && !known.has(keyOf(one)));
    return isNews && items.length > 0 ? [changeOf(kind, items)] : [];
  });
  const over = ending.flatMap((kind) => {
    const isReplaced = isOfRuns(kind) && (has('failed') || has('incomplete'));
    return has(kind) || isReplaced ? [] : before.filter((one) => one.kind === kind);
  });
  return {
    stored: found.flatMap((one) => {
      const was = known.get(keyOf(one));
      if (was === undefined) return [one];
      // Since when it holds stays what it was.
      return was.detail === one.detail ? [] : [{ ...one, since: was.since }];
    }),
    dropped: before.filter((one) => !now.has(keyOf(one))),
    changes: [...appeared, ...(over.length === 0 ? [] : [changeOf('recovered', over)])],
  };
}

function changeOf(kind: NoticeKind, of: readonly Condition[]): Change {
  const items = of.map(({ subject, since, ...one }): ChangedItem => {
    // `as`: only `conditions.ts` makes conditions, and `watched` is not among these.
    return { kind: one.kind as NoticeKind, subject, since, text: detailOf(one).text };
  });
  const since = items.map((one) => one.since).toSorted()[0] ?? '';
  const connector = of.find((one) => one.connector !== '')?.connector;
  const needsPerson = kind !== 'recovered' && of.some((one) => detailOf(one).needsPerson === true);
  return {
    kind,
    connector: connector === undefined || connector === '' ? null : connector,
    since,
    items,
    needsPerson,
  };
}
