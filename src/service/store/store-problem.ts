import type { ErrorCode } from '../../core/errors.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import type { RunReport } from '../../sinks/run-report.ts';

/**
 * What a sync that was not complete says of itself; null: it was complete. Codes and numbers alone: what a third party says in
 * words may quote a record, or a credential.
 */
export function problemOf({ report }: Pick<RunSummary, 'report'>): string | null {
  if (report === null) return cutOff;
  switch (report.outcome) {
    case 'ok':
      return null;
    case 'interrupted':
      return cutOff;
    case 'partial':
      return report.resumeAt === null
        ? 'The last sync ended before everything was read; the next one resumes.'
        : `The third party asked for quiet until ${report.resumeAt}; the sync goes on then.`;
    case 'degraded':
      return `The last sync left something out: ${leftOut(report)}.`;
    case 'failed':
      return failedWith(report.error?.code ?? 'INTERNAL');
  }
}

const cutOff = 'The last sync was cut off before its end; the next one resumes.';

export function failedWith(code: ErrorCode): string {
  const advice =
    code === 'AUTH_FAILED' ? 'the third party does not take the credentials' : 'it is tried again';
  return `The last sync failed (${code}): ${advice}.`;
}

export function madeAnew(code: ErrorCode): string {
  return `The store could not be used (${code}) and is made again from nothing.`;
}

function leftOut({ entities, failures, failuresOmitted }: RunReport): string {
  const parts = entities.flatMap((one) => {
    const codes = new Set(failures.filter(({ entity }) => entity === one.entity).map(({ code }) => code));
    const why = codes.size === 0 ? '' : ` (${[...codes].join(', ')})`;
    return [
      ...(one.setAside === 0 ? [] : [`${one.setAside} listings of ${one.entity}${why}`]),
      ...(one.counts.quarantined === 0 ? [] : [`${one.counts.quarantined} records of ${one.entity}`]),
      ...(one.depthLimited === 0 ? [] : [`${one.depthLimited} listings of ${one.entity} that lie too deep`]),
    ];
  });
  if (parts.length > 0) return parts.join('; ');
  return failures.length + failuresOmitted > 0
    ? `${failures.length + failuresOmitted} listings`
    : 'some listings';
}
